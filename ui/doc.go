// Package ui is the web UI: the files of app/, and the handler that serves them below /ui/.
//
// The UI is a client of the HTTP API like any other. This package reads no state, checks no rights
// and imports no other package of the project. Each page is a JavaScript module (see README.md).
// The index loads all modules as one file, app/bundle/main.js, because each file costs the browser
// some milliseconds. The bundle is in the tree, so that go build needs nothing else. TestBundle makes it.
//
//	/ui/static/<version>/…   the files of app/; <version> is a digest of all of them
//	/ui/…                    any other path: index.html, which loads the bundle
//
// A file of a version never changes, so browsers keep it for good. A window that was opened before its
// agent was upgraded goes on with its version. Its terminal gets 404 and asks the user to reload.
//
// A Site is immutable and starts no goroutines.
package ui
