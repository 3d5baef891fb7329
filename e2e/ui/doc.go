// Package ui tests the web UI in a real Chromium, against a real agent with access control.
//
// Each page is visited in both themes, at 200 % and in a narrow window. It must cause no error on the
// console, no request to another host and no finding of axe-core. Screenshots are kept in the
// directory UI_SCREENS. make ui-test runs these tests; they are skipped without Chromium, unless
// NEEDS_CHROMIUM is set.
//
// To test a page, add a file with a test that calls visit (see ui/README.md).
package ui
