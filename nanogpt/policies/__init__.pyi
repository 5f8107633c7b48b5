from nanogpt.policies.policy_set import Policies as Policies
