// Package site tests the documentation site as a reader gets it.
//
// The site is built twice into one directory, as two versions. Every link and anchor must have a
// target, and headings must be in order. Every entry of the search index must be a section, and two
// builds of the same sources must be equal.
//
// Then Chromium opens the site, as files and from a server. Search, theme, copy buttons and the
// choice of the version must work without a request to another host. Screenshots are kept in the
// directory SITE_SCREENS.
//
// make test-site runs these tests. They are skipped without node, npm or Chromium, unless NEEDS_SITE
// is set. External hosts are never contacted, except the registry of npm to install the generator.
package site
