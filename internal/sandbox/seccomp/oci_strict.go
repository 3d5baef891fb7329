package seccomp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// decode is strict, since a misspelt field must not weaken a profile. It also refuses what
// encoding/json accepts: fields in another case, and duplicate fields.
func decode(raw []byte, f *file) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return errors.New("the file is empty")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(f)
	if err == nil {
		err = d.Decode(new(json.RawMessage))
		switch {
		case errors.Is(err, io.EOF):
			return exactFields(raw)
		case err == nil:
			err = errors.New("more than one JSON value")
		}
	}
	at := d.InputOffset()
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = se.Offset
	} else if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		at = te.Offset
	}
	return fmt.Errorf("line %d: %w", line(raw, at), err)
}

func line(raw []byte, at int64) int {
	return 1 + bytes.Count(raw[:min(max(at, 0), int64(len(raw)))], []byte("\n"))
}

// exactFields checks a valid document for field names with wrong case and for duplicates.
func exactFields(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	var open []map[string]bool // nil: an array
	key := false               // the next token may be a field name
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch tok {
		case json.Delim('{'):
			open, key = append(open, map[string]bool{}), true
			continue
		case json.Delim('['):
			open, key = append(open, nil), false
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if name, ok := tok.(string); ok && key {
				fields := open[len(open)-1]
				if fields[name] || !slices.Contains(fieldNames, name) {
					return fmt.Errorf("line %d: field %q is unknown or duplicate", line(raw, d.InputOffset()), name)
				}
				fields[name], key = true, false
				continue
			}
		}
		key = len(open) > 0 && open[len(open)-1] != nil
	}
}

var fieldNames = []string{"defaultAction", "defaultErrnoRet", "architectures", "archMap", "flags", "syscalls",
	"architecture", "subArchitectures", "name", "names", "action", "errnoRet", "args", "comment", "includes", "excludes",
	"index", "value", "valueTwo", "op", "caps", "arches", "minKernel"}
