//go:build companion

package ui

import "embed"

// bundle has bundle.js.gz, all modules in one file, after `make build`.
//
//go:embed all:bundle
var bundle embed.FS
