//go:build companion

package companion

import _ "embed"

//go:embed companion.bin
var binary []byte
