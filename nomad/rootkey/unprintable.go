package rootkey

import (
	"fmt"
	"io"
	"log/slog"
)

// The parts of root keys print identifying information only, because a record of the built-in wrapper contains the key
// that decrypts the material.

// String returns the ID of the key only.
func (k *Key) String() string {
	if k == nil {
		return "root key(none)"
	}
	return "root key(" + k.KeyID + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (k *Key) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (k *Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// String returns the provider that wrapped the key.
func (w *Wrapped) String() string {
	if w == nil {
		return "wrapped key(none)"
	}
	return "wrapped key(" + w.Provider + " " + w.ProviderID + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (w *Wrapped) Format(f fmt.State, _ rune) { io.WriteString(f, w.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (w *Wrapped) LogValue() slog.Value { return slog.StringValue(w.String()) }

// String returns a constant text without key data.
func (*BlobInfo) String() string { return "encrypted key" }

// Format implements fmt.Formatter. Every verb prints the result of String.
func (b *BlobInfo) Format(f fmt.State, _ rune) { io.WriteString(f, b.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (b *BlobInfo) LogValue() slog.Value { return slog.StringValue(b.String()) }
