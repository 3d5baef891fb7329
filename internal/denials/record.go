package denials

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
)

// Bounds of what is taken from a record: everything beyond is as good as absent.
const (
	maxFields = 64
	maxPath   = 4096
)

// record is one audit record: its serial, which records of one event share, and its
// fields. What a task can choose (paths, names) the kernel writes in quotes, or in
// hexadecimal digits if it holds blanks, quotes or control characters: a blank always
// ends a field, and no task can write one of its own.
type record struct {
	serial string
	fields map[string]string // undecoded
}

// parseRecord reads "audit(<time>:<serial>): key=value ...". The first field of a name
// counts: the kernel writes its own numbers before what a task has chosen.
func parseRecord(text []byte) (record, bool) {
	text = bytes.TrimRight(text, "\x00\n ")
	rest, ok := strings.CutPrefix(string(text), "audit(")
	if !ok {
		return record{}, false
	}
	stamp, rest, ok := strings.Cut(rest, "): ")
	if !ok {
		if stamp, ok = strings.CutSuffix(stamp, "):"); !ok {
			return record{}, false
		}
	}
	_, serial, ok := strings.Cut(stamp, ":")
	if _, err := strconv.ParseUint(serial, 10, 64); !ok || err != nil {
		return record{}, false
	}
	r := record{serial: serial, fields: map[string]string{}}
	for field := range strings.SplitSeq(rest, " ") {
		key, value, ok := strings.Cut(field, "=")
		if _, again := r.fields[key]; !ok || again || key == "" {
			continue
		}
		if len(r.fields) == maxFields {
			break
		}
		r.fields[key] = value
	}
	return r, true
}

// text decodes a field that a task may have chosen. False: there is none, or the
// kernel could not write it.
func (r record) text(key string) (string, bool) {
	raw, ok := r.fields[key]
	if !ok || len(raw) > 2*maxPath+2 {
		return "", false
	}
	if quoted, ok := strings.CutPrefix(raw, `"`); ok {
		s, ok := strings.CutSuffix(quoted, `"`)
		return s, ok && s != "" && len(s) <= maxPath
	}
	b, err := hex.DecodeString(raw)
	return string(b), err == nil && len(b) > 0
}

// number reads a decimal field.
func (r record) number(key string) (int, bool) {
	n, err := strconv.ParseUint(r.fields[key], 10, 32)
	return int(n), err == nil
}
