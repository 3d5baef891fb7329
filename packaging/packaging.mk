# Targets of packages and releases. The version of a package is that of the protocol, then the number of
# commits and the commit, so that a later build is a later version.

DIST       ?= dist
ARCH       ?= $(shell $(GO) env GOARCH)
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: man deb test-deb release test-release

man: ## write the manual pages of all commands to dist/man
	rm -rf $(DIST)/man
	$(GO) run -tags companion ./packaging/man $(DIST)/man

deb: bin/nomad man ## build the Debian package in dist (bin/nomad, units, completions, manual pages)
	GO='$(GO)' packaging/deb/build bin/nomad $(ARCH) $(DIST)

test-deb: bin/nomad ## follow the first guide in a Debian root that boots systemd, then upgrade and remove the package (as root; screenshots go to bin/deb-screens)
	NEEDS_DEB=1 UI_SCREENS='$(abspath $(or $(DEB_SCREENS),bin/deb-screens))' $(GO) test -tags companion -count=1 -timeout=10m -v $(TESTFLAGS) ./packaging/deb

release: ## build programs and packages for amd64 and arm64 with SBOM and checksums in dist/release
	rm -rf $(DIST)/release
	GO='$(GO)' packaging/release/build $(DIST)/release

test-release: $(EMBEDDED) ## build a release of this architecture twice and compare, and one of the other
	RELEASE=1 $(GO) test -tags companion -count=1 -timeout=20m -v $(TESTFLAGS) ./packaging/release
