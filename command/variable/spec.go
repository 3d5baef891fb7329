package variable

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// maxSpec is the maximum size of a specification or a value, in bytes.
const maxSpec = 1 << 20

// isReference reports whether an argument names a specification: "@file", or "-" for
// standard input.
func isReference(arg string) bool { return arg == "-" || strings.HasPrefix(arg, "@") }

// specification reads the variable of put and lock from their first arguments: a
// reference, or a path and optionally a reference. It returns the remaining arguments.
func specification(e *term.Env, args []string, format string) (v *api.Variable, rest []string, err error) {
	v = api.NewVariable("")
	path := ""
	if !isReference(args[0]) {
		path, args = strings.Trim(args[0], "/"), args[1:]
	}
	if len(args) > 0 && isReference(args[0]) {
		if v, err = referred(e, args[0], format); err != nil {
			return nil, nil, err
		}
		args = args[1:]
	}
	if path != "" {
		v.Path = path
	}
	if v.Path == "" {
		return nil, nil, errors.New(`The variable has no path: set it as the first argument, or path = "..." in the specification`)
	}
	return v, args, nil
}

// referred reads the specification of a reference.
func referred(e *term.Env, ref, format string) (*api.Variable, error) {
	text, err := contents(e, ref)
	if err != nil {
		return nil, fmt.Errorf("Error reading the variable specification: %w", err)
	}
	switch extension := filepath.Ext(ref); {
	case format != "":
	case extension == ".hcl":
		format = "hcl"
	default:
		format = "json"
	}
	return parse(text, format)
}

// contents reads the file of "@file", or standard input for "-".
func contents(e *term.Env, ref string) ([]byte, error) {
	name, isFile := strings.CutPrefix(ref, "@")
	if isFile && name == "-" {
		name = "./-" // a file of this name
	}
	return e.Input(name, maxSpec)
}

// parse parses a specification. JSON has the keys of the API, HCL the same names in snake
// case.
func parse(text []byte, format string) (*api.Variable, error) {
	v := api.NewVariable("")
	switch format {
	case "json":
		dec := json.NewDecoder(strings.NewReader(string(text)))
		dec.DisallowUnknownFields()
		if err := dec.Decode(v); err != nil {
			return nil, fmt.Errorf("Error parsing the variable specification as JSON: %w", err)
		}
	case "hcl":
		root := map[string]any{}
		if err := hcl.Decode(&root, string(text)); err != nil {
			return nil, fmt.Errorf("Error parsing the variable specification as HCL: %w", err)
		}
		if err := fromHCL(root, v); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("Invalid value for -in: %q; expected json or hcl", format)
	}
	if v.Items == nil {
		v.Items = api.VariableItems{}
	}
	return v, nil
}

// fromHCL parses a specification in HCL.
func fromHCL(root map[string]any, v *api.Variable) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("Variable specification: "+format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(root)) {
		value := root[name]
		number, isNumber := value.(int)
		text, isText := value.(string)
		switch name {
		case "namespace", "path":
			if !isText {
				fault("%s: expected a string", name)
			}
			*map[string]*string{"namespace": &v.Namespace, "path": &v.Path}[name] = text
		case "create_index", "modify_index", "create_time", "modify_time":
			if !isNumber || number < 0 {
				fault("%s: expected a number", name)
				continue
			}
			if name == "modify_index" { // the servers set the other fields
				v.ModifyIndex = uint64(number)
			}
		case "items":
			if err := itemsOf(value, v.Items); err != nil {
				fault("%w", err)
			}
		case "lock":
			lock, err := lockOf(value)
			if v.Lock = lock; err != nil {
				fault("%w", err)
			}
		default:
			fault("unknown key %s", name)
		}
	}
	return errors.Join(faults...)
}

// lockOf parses a lock block.
func lockOf(value any) (*api.VariableLock, error) {
	blocks, ok := value.([]map[string]any)
	if !ok || len(blocks) != 1 {
		return nil, errors.New("lock: expected one block")
	}
	out := &api.VariableLock{}
	for name, value := range blocks[0] {
		to := map[string]*string{"id": &out.ID, "ttl": &out.TTL, "delay": &out.LockDelay}[name]
		text, isText := value.(string)
		if to == nil || !isText {
			return nil, fmt.Errorf("lock.%s: expected the strings id, ttl and delay", name)
		}
		*to = text
	}
	return out, nil
}

// itemsOf adds the items of a block or of a map attribute.
func itemsOf(value any, to api.VariableItems) error {
	blocks, ok := value.([]map[string]any)
	if !ok || len(blocks) != 1 {
		return errors.New("items: expected one block")
	}
	for name, value := range blocks[0] {
		switch v := value.(type) {
		case string:
			to[name] = v
		case int:
			to[name] = strconv.Itoa(v)
		case float64:
			to[name] = strconv.FormatFloat(v, 'f', -1, 64)
		case bool:
			to[name] = strconv.FormatBool(v)
		default:
			return fmt.Errorf("items.%s: expected a string", name)
		}
	}
	return nil
}

// addItems adds the items of arguments "name=value". The value "@file" is read from the
// file and "-" from standard input. "\@" and "\-" escape them.
func addItems(e *term.Env, args []string, to api.VariableItems) error {
	stdin := 0
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return fmt.Errorf("Invalid item %q: expected name=value", name)
		}
		switch {
		case isReference(value):
			if value == "-" {
				stdin++
			}
			if stdin > 1 {
				return errors.New("Only one item can have its value from standard input")
			}
			text, err := contents(e, value)
			if err != nil {
				return fmt.Errorf("Error reading the value of item %q: %w", name, err)
			}
			value = string(text)
		case strings.HasPrefix(value, `\@`), strings.HasPrefix(value, `\-`):
			value = value[1:]
		}
		to[name] = value
	}
	return nil
}

// asHCL writes a variable as a specification.
func asHCL(v *api.Variable) string {
	var b strings.Builder
	for _, line := range []struct {
		name  string
		value string
		shown bool
	}{
		{"namespace", quoted(v.Namespace), v.Namespace != ""}, {"path", quoted(v.Path), true},
		{"create_index", strconv.FormatUint(v.CreateIndex, 10), v.CreateIndex != 0}, {"modify_index", strconv.FormatUint(v.ModifyIndex, 10),
			v.ModifyIndex != 0},
		{"create_time", strconv.FormatInt(v.CreateTime, 10), v.CreateTime != 0}, {"modify_time", strconv.FormatInt(v.ModifyTime, 10),
			v.ModifyTime != 0},
	} {
		if line.shown {
			fmt.Fprintf(&b, "%-12s = %s\n", line.name, line.value)
		}
	}
	b.WriteString("\nitems = {\n")
	for _, name := range slices.Sorted(maps.Keys(v.Items)) {
		fmt.Fprintf(&b, "  %s = %s\n", quoted(name), quoted(v.Items[name]))
	}
	b.WriteString("}\n")
	return b.String()
}

// quoted returns text as an HCL string literal.
func quoted(text string) string { return strconv.Quote(text) }
