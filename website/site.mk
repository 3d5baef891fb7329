# Targets of the documentation site. Each version is built into a directory of its own; the choice in the
# header lists the versions that are there.

SITE_VERSION ?= $(shell sed -n 's/^const Number = "\(.*\)"/\1/p' internal/version/version.go)

.PHONY: site test-site plots

site: website/node_modules/.package-lock.json ## build the documentation into website/public/VERSION (needs node and npm; open its index.html)
	rm -rf '$(or $(SITE_DIR),website/public)/$(SITE_VERSION)'
	cd website && SITE_VERSION='$(SITE_VERSION)' npm run --silent build
	@echo 'site: $(or $(SITE_DIR),website/public)/$(SITE_VERSION)/index.html'

website/node_modules/.package-lock.json: website/package.json website/package-lock.json website/.npmrc
	cd website && npm ci --silent

test-site: ## build the documentation and check links, headings, search and pictures in Chromium (screenshots go to bin/site-screens)
	scripts/ui-vendor axe-core
	NEEDS_SITE=1 SITE_SCREENS='$(abspath $(or $(SITE_SCREENS),bin/site-screens))' $(GO) test -count=1 -timeout=10m $(TESTFLAGS) ./e2e/site

plots: ## make the page about performance from website/bench.tsv (measure: make bench BENCH_TSV=website/bench.tsv)
	$(GO) run ./e2e/bench/plots website/bench.tsv website/content/docs
