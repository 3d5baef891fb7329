package denials

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
)

// Limits of a record; anything beyond is ignored.
const (
	maxFields = 64
	maxPath   = 4096
)

// record is one audit record: its serial, which the records of one event share, and its fields. The
// kernel quotes values that a task can choose (paths, names), or writes them in hexadecimal if they
// contain blanks, quotes or control characters. A blank therefore always ends a field, and no task
// can forge one.
type record struct {
	serial string
	fields map[string]string // undecoded
}

// parseRecord parses "audit(<time>:<serial>): key=value ...". The first of equal keys counts: the
// kernel writes its own values before values that a task can choose.
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

// text decodes a field that a task may have chosen. It returns false if the field is missing or the
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

// number parses a decimal field.
func (r record) number(key string) (int, bool) {
	n, err := strconv.ParseUint(r.fields[key], 10, 32)
	return int(n), err == nil
}
