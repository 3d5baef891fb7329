// Package ui is the web UI: the files of app/, and the handler that serves them below /ui/.
//
// The UI is a client of the HTTP API like any other. This package reads no state, checks no rights
// and imports no other package of the project. Each page is a JavaScript module (see README.md).
// Each file costs the browser some milliseconds. So `make build` joins all modules in one file, which the
// index loads. After `go build` alone, the index loads the modules. The style sheets are joined at the start.
//
//	/ui/static/<version>/…   the files of app/, styles.css and bundle.js; <version> is a digest of all
//	/ui/…                    any other path: index.html
//
// A file of a version never changes, so browsers keep it for good. A window that was opened before its
// agent was upgraded goes on with its version. Its terminal gets 404 and asks the user to reload.
//
// A Site is immutable and starts no goroutines.
package ui
