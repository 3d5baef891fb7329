package nomad

import (
	"fmt"
	"io"
	"log/slog"
)

// The parts of root keys show what they are, not what is in them: beside a key that the
// built-in wrapper encrypted stands what decrypts it.

// String shows the ID of the key only.
func (k *RootKey) String() string {
	if k == nil {
		return "root key(none)"
	}
	return "root key(" + k.KeyID + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (k *RootKey) Format(f fmt.State, _ rune) { io.WriteString(f, k.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (k *RootKey) LogValue() slog.Value { return slog.StringValue(k.String()) }

// String shows who wrapped the key only.
func (w *WrappedKey) String() string {
	if w == nil {
		return "wrapped key(none)"
	}
	return "wrapped key(" + w.Provider + " " + w.ProviderID + ")"
}

// Format implements fmt.Formatter. Every verb prints the result of String.
func (w *WrappedKey) Format(f fmt.State, _ rune) { io.WriteString(f, w.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (w *WrappedKey) LogValue() slog.Value { return slog.StringValue(w.String()) }

// String shows nothing of the key.
func (*BlobInfo) String() string { return "encrypted key" }

// Format implements fmt.Formatter. Every verb prints the result of String.
func (b *BlobInfo) Format(f fmt.State, _ rune) { io.WriteString(f, b.String()) }

// LogValue implements slog.LogValuer with the result of String.
func (b *BlobInfo) LogValue() slog.Value { return slog.StringValue(b.String()) }
