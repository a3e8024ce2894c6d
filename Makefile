# make install    install everything into .venv
# make demo    install, then run the default experiment; the report is results/demo/report.html
# make test    the fast tests, including the workflow from end to end
# make test-slow    the slow tests except the matrix: repeated runs of the workflow, more generated inputs
# make test-all    all tests except the matrix: the fast and the slow ones
# make test-matrix    the same questions in two ways: rows of a matrix of options, and planted faults; 4 minutes; SEED=N draws other logs
# make test-faults    runs that go on after real faults: killed processes, full disks, damaged files, failing servers
# make test-kernels    the fast tests with the kernels of three generations of processors, each with one and two threads
# make test-versions    the library's tests with the oldest and the newest dependencies, on the newest Python at hand too
# make test-browser    the demo's report, the report on a log and the site in Chromium, on a wide screen and on a phone
# make test-slurm    a smaller demo on a temporary Slurm cluster; its tables equal those of a local run
# make test-slurm-faults    Slurm jobs that are too long or too large, cancelled or on a failing node, and interrupted runs
# make fuzz    the property tests with 20 times as many generated inputs; SEED=N repeats a run
# make report EXPERIMENT=sample    run what is missing, then write results/sample/report.html; CONFIG=mine.yaml adds a file
# make bench MIRROR=PATH_OR_URL    run times compared with lower bounds, results/bench.json; fewer of them without a mirror
# make site    the documentation as a site, results/site/index.html; warnings are errors
# make docs    the documentation's figures and tables from docs/results; TAKE="sample ..." first copies results there
# make lint    ruff, import-linter, mypy, snakefmt, snakemake --lint, and that the faults of benchmarks can be planted
# make pins    renew requirements.txt from pyproject.toml

PYTHON ?= python3
CORES ?= 2
EXPERIMENT ?= demo
CONFIG ?=
MIRROR ?=
SEED ?=
TAKE ?=
SNAKEMAKE = snakemake --cores $(CORES)
PYTEST = python -m pytest -n $(CORES) --dist loadfile --no-loadscope-reorder
WITH_CONFIG = $(if $(CONFIG),--configfile $(CONFIG))
export PATH := $(CURDIR)/.venv/bin:$(PATH)
unexport PYTHONDONTWRITEBYTECODE  # with it, each process compiles the modules and the tests again

.PHONY: install demo test test-slow test-all test-matrix test-faults test-kernels test-versions test-browser test-slurm test-slurm-faults fuzz report bench site docs lint pins clean

install: .venv/installed

demo: .venv/installed
	@echo "demo: every algorithm of the paper, and one beyond, on scikit-learn's digits; about 2 minutes on 2 cores"
	@$(MAKE) --no-print-directory report EXPERIMENT=demo CONFIG=

report: .venv/installed
	@$(SNAKEMAKE) $(EXPERIMENT) $(WITH_CONFIG)
	@$(SNAKEMAKE) $(EXPERIMENT) --report results/$(EXPERIMENT)/report.html $(WITH_CONFIG) \
		--config "run=[$(EXPERIMENT)]" --report-stylesheet workflow/report/style.css
	@echo "The report: results/$(EXPERIMENT)/report.html"

test: .venv/installed
	@echo "testing: 2 to 4 minutes on 2 cores"
	$(PYTEST) -m "not slow"

test-slow: .venv/installed
	$(PYTEST) -m slow --ignore=tests/matrix

test-all: test test-slow

test-matrix: .venv/installed
	MATRIX_SEED="$(SEED)" python -m pytest -n $(CORES) --dist load tests/matrix

test-faults: .venv/installed
	$(PYTEST) tests/faults

test-kernels: .venv/installed
	@for kernel in Nehalem SandyBridge Haswell; do for threads in 1 2; do \
		echo "testing with the kernels of $$kernel and $$threads threads"; \
		OPENBLAS_CORETYPE=$$kernel OPENBLAS_NUM_THREADS=$$threads OMP_NUM_THREADS=$$threads \
			$(PYTEST) -m "not slow" || exit 1; \
	done; done

test-versions: .venv/installed
	.ci/test-versions

test-browser: .venv/installed
	$(PYTEST) tests/browser

test-slurm: .venv/slurm
	python -m pytest tests/slurm -k demo

test-slurm-faults: .venv/slurm
	python -m pytest tests/slurm -k "not demo"

fuzz: .venv/installed
	python -m pytest -n $(CORES) --hypothesis-profile=explore $(if $(SEED),--hypothesis-seed=$(SEED)) \
		$(shell grep -rl '^from hypothesis import' tests --include='test_*.py')

bench: .venv/installed
	$(if $(MIRROR),$(SNAKEMAKE) bench --until replay --configfile benchmarks/config.yaml --config mirror=$(MIRROR))
	python benchmarks/bench.py

site: .venv/site
	@echo "building the site: 1 to 2 minutes"
	@sphinx-build --quiet --fail-on-warning --keep-going -d results/site/.doctrees docs results/site
	@echo "The site: results/site/index.html"

docs: .venv/installed
	python docs/build.py $(TAKE)

lint: .venv/installed
	ruff check .
	ruff format --check .
	lint-imports
	mypy
	snakefmt --check Snakefile workflow
	.ci/lint-workflow
	python benchmarks/protection.py --check

.venv/installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	@echo "installing into .venv: 1 to 4 minutes, 1.2 GB"
	@$(PYTHON) -m venv .venv
	@python -m pip install --quiet --no-compile -r requirements.txt
	@python -m pip install --quiet --no-deps --editable .
	@# on all cores, and without the packages' own tests: faster than pip does it; jobs start faster with compiled modules
	-@python -m compileall -qq -j $(CORES) -x '/tests?/' .venv/lib src studies docs
	@touch $@

.venv/slurm: .venv/installed
	python -m pip install --quiet --no-compile -r requirements.txt --editable ".[slurm]"
	touch $@

.venv/site: .venv/installed docs/requirements.txt
	python -m pip install --quiet --no-compile -r requirements.txt -r docs/requirements.txt
	touch $@

pins:
	$(PYTHON) -m venv .venv
	python -m pip install --quiet pip-tools
	pip-compile --quiet --upgrade --extra dev --strip-extras --no-annotate --no-header \
		--no-emit-index-url --no-emit-find-links --output-file requirements.txt pyproject.toml
	sed -i '/^drcrm @/d' requirements.txt
	pip-compile --quiet --upgrade --extra site --constraint requirements.txt --strip-extras --no-annotate --no-header \
		--no-emit-index-url --no-emit-find-links --output-file docs/requirements.txt pyproject.toml
	sed -i '/^drcrm @/d' docs/requirements.txt

clean:
	rm -rf .venv results resources .snakemake
