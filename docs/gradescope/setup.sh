#!/usr/bin/env bash
# Run once by Gradescope, as root, when it builds the autograder: installs the course.
set -e
apt-get update
apt-get install -y python3 python3-venv # 3.11 or newer: choose a base image that has it
cd /autograder/source
python3 learn.py progress
