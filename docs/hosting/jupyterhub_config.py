"""A class on one machine: JupyterHub, and the course in each learner's JupyterLab.

The course lies in /srv/serving-nanogpt, opened there once with `python3 learn.py jupyter`, with
`pip install jupyterhub` in its .venv, and only you may write there. Each learner is a user of the
machine and signs in with the machine's password; server and kernels run as that user. Start it as
root: `.venv/bin/jupyterhub -f docs/hosting/jupyterhub_config.py`. docs/jupyter.md says more.
"""

c = get_config()  # noqa: F821

COURSE = "/srv/serving-nanogpt"

c.Spawner.cmd = [f"{COURSE}/.venv/bin/python", "-m", "course.jupyter.hub"]
c.Spawner.environment = {
    "SERVING_NANOGPT_WORK": lambda spawner: f"/home/{spawner.user.name}/serving-nanogpt",
    "OMP_NUM_THREADS": "1",
}
c.Spawner.default_url = "/lab/tree/index.ipynb"
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.Authenticator.allow_all = True  # every user of the machine that PAM lets in
# Behind a proxy that speaks TLS: a Hub must not be reached over plain HTTP from other machines.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
