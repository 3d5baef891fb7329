package variable

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/internal/consulkey"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// maxExport is the maximum size of an export, in bytes.
const maxExport = 64 << 20

// exported is a key of the output of "consul kv export". It does not print its value.
type exported struct {
	Key   string `json:"key"`
	Flags uint64 `json:"flags"`
	Value string `json:"value"` // base64
}

// String returns the key only.
func (x exported) String() string { return fmt.Sprintf("%.300q", x.Key) }

// GoString returns the result of String, so that %#v does not print the value.
func (x exported) GoString() string { return x.String() }

// isFolder reports whether the key is the mark of a folder. Variables need none.
func (x exported) isFolder() bool { return strings.HasSuffix(x.Key, "/") && x.Value == "" }

// parseExport parses an export. Its errors do not quote the text, which has values.
func parseExport(text []byte) ([]exported, error) {
	var out []exported
	err := json.Unmarshal(text, &out)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return out, nil
	case errors.As(err, &syntax):
		return nil, fmt.Errorf("invalid JSON at byte %d; expected the output of \"consul kv export\"", syntax.Offset)
	case errors.As(err, &kind):
		return nil, fmt.Errorf("wrong type at byte %d; expected the output of \"consul kv export\": a list of objects with key, flags and value",
			kind.Offset)
	}
	return nil, errors.New(`expected the output of "consul kv export"`)
}

// variable returns the variable of the key. The error is the reason why it cannot be stored.
func (x exported) variable() (*api.Variable, error) {
	if strings.ContainsRune(x.Key, utf8.RuneError) { // encoders of JSON write it instead of other bytes
		return nil, errors.New("the key is not valid UTF-8")
	}
	path, err := consulkey.Path(x.Key)
	if err != nil {
		return nil, err
	}
	value, err := base64.StdEncoding.DecodeString(x.Value)
	if err != nil {
		return nil, errors.New("the value is not base64")
	}
	items := variable.Items{consulkey.Item: string(value)}
	switch size := items.Size(); {
	case size > variable.MaxSize:
		return nil, fmt.Errorf("the value has %d bytes: the limit is %d, so split it", len(value), variable.MaxSize-(size-len(value)))
	case !utf8.Valid(value):
		return nil, errors.New("the value is not valid UTF-8: variables store text only")
	}
	return &api.Variable{Path: path, Items: api.VariableItems(items)}, nil
}
