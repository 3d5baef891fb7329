//go:build !companion

package ui

import "embed"

// bundle is empty: this build serves the modules as they are in app.
var bundle embed.FS
