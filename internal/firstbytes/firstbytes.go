// Package firstbytes keeps the beginning of an output of unknown length, such as that of another
// program, and discards the rest. It never blocks or fails the writer. It starts no goroutine.
package firstbytes

import (
	"bytes"
	"strings"
	"sync"
)

// Buffer keeps the first Limit bytes that are written to it. Its methods may be called concurrently.
//
// It does not embed a bytes.Buffer, whose ReadFrom would let io.Copy pass by Write and its limit.
type Buffer struct {
	Limit int
	OnCut func() // called when bytes are discarded, maybe more than once; nil: not called

	mu        sync.Mutex
	kept      bytes.Buffer
	truncated bool
}

// Write implements io.Writer. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	n := min(len(p), b.Limit-b.kept.Len())
	b.kept.Write(p[:n])
	b.truncated = b.truncated || n < len(p)
	b.mu.Unlock()
	if n < len(p) && b.OnCut != nil {
		b.OnCut()
	}
	return len(p), nil
}

// Bytes returns a copy of the kept bytes.
func (b *Buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.kept.Bytes())
}

// String returns the kept bytes.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept.String()
}

// FirstLine returns the kept bytes before the first end of a line.
func (b *Buffer) FirstLine() string {
	line, _, _ := strings.Cut(b.String(), "\n")
	return line
}

// Truncated reports whether bytes were discarded.
func (b *Buffer) Truncated() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.truncated
}
