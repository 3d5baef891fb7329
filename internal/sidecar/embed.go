//go:build companion

package sidecar

import _ "embed"

//go:embed fetch.bin.gz
var fetchBinary []byte

//go:embed render.bin.gz
var renderBinary []byte
