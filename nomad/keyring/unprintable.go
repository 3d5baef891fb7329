package keyring

import (
	"fmt"
	"io"
	"log/slog"
)

// Format prints no key material, whatever the verb.
func (material) Format(f fmt.State, _ rune) { io.WriteString(f, "key material") }

// LogValue implements slog.LogValuer like Format.
func (material) LogValue() slog.Value { return slog.StringValue("key material") }
