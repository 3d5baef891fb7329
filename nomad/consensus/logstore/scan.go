package logstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/segment"
	"golang.org/x/sys/unix"
)

// raft-wal treats damage in a segment like a write torn by a crash: it drops everything after
// the damage, possibly the complete segment. That would lose acknowledged entries, so the
// segments are checked before the log is opened. A segment is a header and a sequence of
// frames, each a multiple of 8 bytes. A commit frame ends each batch. It contains the CRC of
// everything since the previous commit frame:
//
//	header(32) | frame ... | commit | frame ... | commit | zeros
//	frame: type(1) zeros(3) length(4) payload, padded to 8     commit: type(1) zeros(3) crc(4)
const (
	segmentHeader = 32
	frameHeader   = 8
	frameEntry    = 1
	frameIndex    = 2
	frameCommit   = 3
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// extent is the intact part of a segment.
type extent struct {
	end     int64  // end of the last complete batch
	entries uint64 // number of entries up to end
	index   int64  // start of the index at the end of a full segment, or 0
}

// scanLog fails if a segment of the log is damaged before its last batch. An incomplete last
// batch is the result of a crash during a write, not damage. scanLog returns the intact part of
// each file.
func scanLog(dir, index string) (map[string]extent, error) {
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return nil, fmt.Errorf("list raft log: %w", err)
	}
	if _, err := os.Lstat(index); errors.Is(err, os.ErrNotExist) && len(segments) > 0 {
		return nil, fmt.Errorf("%w: %s is missing, but its segments exist", ErrDamaged, index)
	}
	found := map[string]extent{}
	for _, path := range segments {
		if found[filepath.Base(path)], err = scanSegment(path); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// checkSegments compares the segments with the index of the log. It fails if the only segment
// is missing although a term was stored after its creation: the log would silently start empty.
// A segment with a successor must have all its entries. A crash may leave data after the last
// complete batch of the current segment. checkSegments overwrites it with zeros, so that it is never
// read as an entry.
func checkSegments(dir string, meta *metadb.BoltMetaDB, found map[string]extent) error {
	state, err := meta.Load(dir)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	term, err := meta.GetStable(termKey)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	if len(state.Segments) > 0 && len(found) == 0 && len(term) > 0 {
		return fmt.Errorf("%w: %s has no segment left", ErrDamaged, dir)
	}
	for _, info := range state.Segments {
		name := segment.FileName(info)
		file, there := found[name]
		path := filepath.Join(dir, name)
		switch {
		case info.SealTime.IsZero() && there:
			if err := empty(path, file.end); err != nil {
				return fmt.Errorf("empty the end of %s: %w", path, err)
			}
		case info.SealTime.IsZero(): // created, but a crash came before its file
		case !there:
			return fmt.Errorf("%w: %s is missing", ErrDamaged, path)
		case info.BaseIndex+file.entries <= info.MaxIndex, info.IndexStart != 0 && int64(info.IndexStart) != file.index:
			return fmt.Errorf("%w: %s ends before entry %d", ErrDamaged, path, info.MaxIndex)
		}
	}
	return nil
}

// empty overwrites the data after end with zeros.
func empty(path string, end int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close() // synced below
	buf, zeros := make([]byte, 64<<10), make([]byte, 64<<10)
	changed := false
	for {
		if at, err := unix.Seek(int(f.Fd()), end, unix.SEEK_DATA); err == nil {
			end = at
		} else if errors.Is(err, unix.ENXIO) {
			break // only unwritten space follows
		}
		n, err := f.ReadAt(buf, end)
		if !bytes.Equal(buf[:n], zeros[:n]) {
			changed = true
			if _, err := f.WriteAt(zeros[:n], end); err != nil {
				return err
			}
		}
		end += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return f.Sync()
}

// scanSegment checks one segment.
func scanSegment(path string) (extent, error) {
	f, err := os.Open(path)
	if err != nil {
		return extent{}, fmt.Errorf("open raft log: %w", err)
	}
	defer f.Close() // read only
	s := scan{f: f, buf: make([]byte, 64<<10)}
	bad, err := s.walk()
	if err == nil && bad < 0 {
		bad, err = s.search()
	}
	if err != nil {
		return extent{}, fmt.Errorf("read %s: %w", path, err)
	}
	if bad >= 0 {
		return extent{}, fmt.Errorf("%w: %s, before byte %d", ErrDamaged, path, bad)
	}
	return s.complete, nil
}

// scan is the state of scanning one segment.
type scan struct {
	f        *os.File
	buf      []byte
	complete extent
	loose    []int64 // ends of the first frames after the last complete batch
}

// maxLoose limits loose. A batch from raft has fewer entries.
const maxLoose = 128

// walk reads the frames in sequence. It returns the end of the first invalid batch that a valid
// one follows, or -1.
func (s *scan) walk() (bad int64, err error) {
	suspect, at := int64(-1), int64(segmentHeader)
	seen := extent{}
	crc, err := s.sum(0, 0, segmentHeader)
	for err == nil {
		var head [frameHeader]byte
		if _, err = s.f.ReadAt(head[:], at); err != nil {
			break
		}
		size := int64(frameHeader)
		value := binary.LittleEndian.Uint32(head[4:])
		if len(s.loose) < maxLoose {
			s.loose = append(s.loose, at+frameHeader)
		}
		switch head[0] {
		case frameCommit:
			at += size
			switch {
			case crc == value && suspect >= 0:
				return suspect, nil
			case crc == value:
				seen.end = at
				s.complete, s.loose = seen, nil
			default:
				suspect = at - size
			}
			crc = 0
			continue
		case frameEntry:
			seen.entries++
			size += (int64(value) + 7) &^ 7
		case frameIndex:
			seen.index = at + frameHeader
			size += (int64(value) + 7) &^ 7
		default:
			return -1, nil
		}
		crc, err = s.sum(crc, at, size)
		at += size
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // a length beyond the end of the file: search decides whether it is damage
	}
	return -1, err
}

// sum continues crc over size bytes from at.
func (s *scan) sum(crc uint32, at, size int64) (uint32, error) {
	r := io.NewSectionReader(s.f, at, size)
	for size > 0 {
		n, err := io.ReadFull(r, s.buf[:min(size, int64(len(s.buf)))])
		if err != nil {
			return crc, err
		}
		crc = crc32.Update(crc, castagnoli, s.buf[:n])
		size -= int64(n)
	}
	return crc, nil
}

// search looks for another batch after the last complete one. Such a batch was acknowledged, so
// the data before it is damaged and not a torn write. search returns the end of such a batch,
// or -1. A batch begins after a commit frame, or after a frame that may have been one before
// the damage.
func (s *scan) search() (int64, error) {
	at := s.complete.end
	begun := map[int64]uint32{} // possible starts of a batch, and the CRC from there
	for {
		next, err := unix.Seek(int(s.f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return -1, nil // only unwritten space follows
		}
		if next &^= 7; err == nil && next > at {
			clear(begun)
			at = next
		}
		n, err := s.f.ReadAt(s.buf, at)
		for word := s.buf[:n&^7]; len(word) > 0; word = word[frameHeader:] {
			if len(s.loose) > 0 && s.loose[0] == at {
				begun[at], s.loose = 0, s.loose[1:]
			}
			commit := word[0] == frameCommit && word[1]|word[2]|word[3] == 0
			want := binary.LittleEndian.Uint32(word[4:])
			for from, crc := range begun {
				if commit && from < at && crc == want && crc != 0 {
					return at, nil
				}
				begun[from] = crc32.Update(crc, castagnoli, word[:frameHeader])
			}
			at += frameHeader
			if commit && len(begun) < 2*maxLoose {
				begun[at] = 0
			}
		}
		if err == io.EOF {
			return -1, nil
		}
		if err != nil {
			return -1, err
		}
	}
}
