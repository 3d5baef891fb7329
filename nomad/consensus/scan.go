package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft-wal/metadb"
	"golang.org/x/sys/unix"
)

// The log opens a damaged segment as if its last writes had been torn by a
// crash: it drops what follows the damage, even the whole segment. That loses
// entries which were acknowledged, so the segments are read before the log is
// opened. A segment is a header and frames, each of a multiple of 8 bytes; a
// commit frame ends each batch and holds the CRC of all since the one before it:
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

// ErrDamaged means that the log holds something else than was written.
var ErrDamaged = errors.New("raft log is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// scanLog fails when a segment of the log is damaged before its last batch. A
// last batch that is not whole is a write that a crash tore, and no damage.
func scanLog(dir, index string) error {
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil {
		return fmt.Errorf("list raft log: %w", err)
	}
	if _, err := os.Lstat(index); errors.Is(err, os.ErrNotExist) && len(segments) > 0 {
		return fmt.Errorf("%w: %s is missing, its segments are there", ErrDamaged, index)
	}
	for _, path := range segments {
		if err := scanSegment(path); err != nil {
			return err
		}
	}
	return nil
}

// checkFirst fails when the log's only segment is gone although a term was
// stored after it had been made. The log would begin anew without a word.
func checkFirst(dir string, meta *metadb.BoltMetaDB) error {
	state, err := meta.Load(dir)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	term, err := meta.GetStable([]byte("CurrentTerm"))
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDamaged, dir, err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err == nil && len(state.Segments) > 0 && len(segments) == 0 && len(term) > 0 {
		err = fmt.Errorf("%w: %s has no segment left", ErrDamaged, dir)
	}
	return err
}

// scanSegment checks one segment.
func scanSegment(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open raft log: %w", err)
	}
	defer f.Close() // only read from
	s := scan{f: f, buf: make([]byte, 64<<10)}
	bad, err := s.walk()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if bad < 0 {
		bad, err = s.search()
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if bad >= 0 {
		return fmt.Errorf("%w: %s, before byte %d", ErrDamaged, path, bad)
	}
	return nil
}

// scan is a segment while it is scanned.
type scan struct {
	f   *os.File
	buf []byte
	at  int64 // where the frames that can be walked end
}

// walk goes from frame to frame and returns the end of the first batch that is
// wrong although a right one follows, -1 when there is none.
func (s *scan) walk() (bad int64, err error) {
	suspect := int64(-1)
	crc, err := s.sum(0, 0, segmentHeader)
	s.at = segmentHeader
	for err == nil {
		var head [frameHeader]byte
		if _, err = s.f.ReadAt(head[:], s.at); err != nil {
			break
		}
		size := int64(frameHeader)
		value := binary.LittleEndian.Uint32(head[4:])
		switch head[0] {
		case frameCommit:
			if crc != value {
				suspect = s.at
			} else if suspect >= 0 {
				return suspect, nil
			}
			crc, s.at = 0, s.at+size
			continue
		case frameEntry, frameIndex:
			size += (int64(value) + 7) &^ 7
		default:
			return -1, nil
		}
		crc, err = s.sum(crc, s.at, size)
		if err == nil {
			s.at += size
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // a length that reaches beyond the end: search judges it
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

// search looks behind the last frame that can be walked for a batch that is
// whole: it was acknowledged, so what stands before it is no torn write. It
// returns the end of such a batch, -1 when there is none.
func (s *scan) search() (int64, error) {
	var crc uint32
	begun := false // a commit frame was seen, crc begins after it
	for {
		at, err := unix.Seek(int(s.f.Fd()), s.at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return -1, nil // only what was never written follows
		}
		if err != nil {
			at = s.at
		}
		if at = max(at&^7, s.at); at > s.at {
			begun, s.at = false, at
		}
		n, err := s.f.ReadAt(s.buf, s.at)
		for word := s.buf[:n&^7]; len(word) > 0; word = word[frameHeader:] {
			if word[0] == frameCommit && word[1]|word[2]|word[3] == 0 {
				if begun && crc == binary.LittleEndian.Uint32(word[4:]) && crc != 0 {
					return s.at, nil
				}
				begun, crc = true, 0
			} else if begun {
				crc = crc32.Update(crc, castagnoli, word[:frameHeader])
			}
			s.at += frameHeader
		}
		if err == io.EOF {
			return -1, nil
		}
		if err != nil {
			return -1, err
		}
	}
}
