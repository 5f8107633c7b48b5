.PHONY: setup serve test lint
setup:  ## make .venv and install everything
	python3 learn.py progress
serve:  ## open the course in the browser
	python3 learn.py
test:  ## run the tests, in about 8 minutes
	python3 learn.py test
lint:  ## what ruff and pyright say (once the tests have run)
	.venv/bin/python -m ruff check && .venv/bin/python -m ruff format --check && .venv/bin/python -m pyright
