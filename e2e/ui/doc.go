// Package ui tests the web UI in a real Chromium, against a real agent with access control.
//
// Each page is visited: it must render without an error on the console, without a request to another
// host and without a finding of axe-core, in both themes, at 200 % and in a narrow window. Screenshots
// are kept in the directory UI_SCREENS. make ui-test runs these tests; they are skipped without
// Chromium, unless NEEDS_CHROMIUM is set.
//
// To test a page, add a file with a test that calls visit (see ui/README.md).
package ui
