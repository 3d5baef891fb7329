package keyring

import (
	"fmt"
	"io"
	"log/slog"
)

// Format shows nothing of the material, whatever the verb.
func (material) Format(f fmt.State, _ rune) { io.WriteString(f, "key material") }

// LogValue is Format, for slog.
func (material) LogValue() slog.Value { return slog.StringValue("key material") }
