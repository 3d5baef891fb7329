package logstore

import (
	"bytes"
	"slices"
	"testing"

	"github.com/hashicorp/raft-wal/types"
)

// openFile is a file in memory that records its calls.
type openFile struct {
	types.WritableFile
	data   []byte
	writes []int64 // lengths
}

func (f *openFile) WriteAt(p []byte, at int64) (int, error) {
	f.writes = append(f.writes, int64(len(p)))
	return copy(f.data[at:], p), nil
}

// took returns the lengths of the writes since the last call.
func (f *openFile) took() []int64 {
	out := f.writes
	f.writes = nil
	return out
}

// A segment is zeroed ahead in steps, not beyond its end. Each entry is at its offset.
func TestSegmentIsWrittenAhead(t *testing.T) {
	const end = 2*zeroStep + 100
	f := &openFile{data: bytes.Repeat([]byte{0xff}, end)}
	s := &segmentFile{WritableFile: f, size: end}
	entry := bytes.Repeat([]byte{7}, 40)
	for _, x := range []struct {
		at    int64
		wrote []int64
	}{
		{0, []int64{zeroStep, 40}},
		{40, []int64{40}},
		{zeroStep - 20, []int64{zeroStep, 40}},
		{2*zeroStep - 40, []int64{40}},
		{2 * zeroStep, []int64{100, 40}},
		{2*zeroStep + 60, []int64{40}},
	} {
		if n, err := s.WriteAt(entry, x.at); n != len(entry) || err != nil {
			t.Fatalf("WriteAt(%d) = %d, %v", x.at, n, err)
		}
		if got := f.took(); !slices.Equal(got, x.wrote) {
			t.Errorf("the entry at %d takes writes of %d bytes, want %d", x.at, got, x.wrote)
		}
		if !bytes.Equal(f.data[x.at:x.at+40], entry) {
			t.Errorf("the entry at %d is not at its offset", x.at)
		}
	}
	if !bytes.Equal(f.data[:80], bytes.Repeat([]byte{7}, 80)) || f.data[80] != 0 || f.data[zeroStep-21] != 0 {
		t.Error("writing ahead has changed existing data, or written something other than zeros")
	}
}

// A server that continues a segment writes zeros ahead from its first write on, and changes
// nothing before.
func TestContinuedSegment(t *testing.T) {
	f := &openFile{data: bytes.Repeat([]byte{7}, 2*zeroStep)}
	s := &segmentFile{WritableFile: f, size: int64(len(f.data)), written: unknown}
	if _, err := s.WriteAt([]byte{8}, 1000); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(f.data[:1000], bytes.Repeat([]byte{7}, 1000)) || f.data[1000] != 8 || f.data[1001] != 0 || f.data[1000+zeroStep] != 7 {
		t.Error("bytes outside the step after the first write were changed")
	}
}
