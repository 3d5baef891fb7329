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

// maxSpec bounds what is read of a specification or of a value.
const maxSpec = 1 << 20

// isReference says whether an argument stands for a specification: "@file", or "-" for
// standard input.
func isReference(arg string) bool { return arg == "-" || strings.HasPrefix(arg, "@") }

// specification is what the arguments of put and lock say before their last ones: a
// reference, or a path and maybe a reference. It returns what is left of the arguments.
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
		return nil, nil, errors.New(`The variable has no path: give one as the first argument, or path = "..." in the specification`)
	}
	return v, args, nil
}

// referred reads the specification that a reference stands for.
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

// contents reads what "@file" or "-" stands for.
func contents(e *term.Env, ref string) ([]byte, error) {
	name, isFile := strings.CutPrefix(ref, "@")
	if isFile && name == "-" {
		name = "./-" // a file of this name
	}
	return e.Input(name, maxSpec)
}

// parse reads a specification. JSON is as the API has it, HCL has its names in lower case
// with underscores.
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
		return nil, fmt.Errorf("Invalid value for -in: %q; json and hcl are known", format)
	}
	if v.Items == nil {
		v.Items = api.VariableItems{}
	}
	return v, nil
}

// fromHCL takes what a specification in HCL says.
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
				fault("%s: a string is expected", name)
			}
			*map[string]*string{"namespace": &v.Namespace, "path": &v.Path}[name] = text
		case "create_index", "modify_index", "create_time", "modify_time":
			if !isNumber || number < 0 {
				fault("%s: a number is expected", name)
				continue
			}
			if name == "modify_index" { // the others are the servers' to say
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
			fault("no variable has %s", name)
		}
	}
	return errors.Join(faults...)
}

// lockOf takes a block lock.
func lockOf(value any) (*api.VariableLock, error) {
	blocks, ok := value.([]map[string]any)
	if !ok || len(blocks) != 1 {
		return nil, errors.New("lock: one block is expected")
	}
	out := &api.VariableLock{}
	for name, value := range blocks[0] {
		to := map[string]*string{"id": &out.ID, "ttl": &out.TTL, "delay": &out.LockDelay}[name]
		text, isText := value.(string)
		if to == nil || !isText {
			return nil, fmt.Errorf("lock.%s: id, ttl and delay are known, as strings", name)
		}
		*to = text
	}
	return out, nil
}

// itemsOf adds the items of a block, or of an attribute that is a map.
func itemsOf(value any, to api.VariableItems) error {
	blocks, ok := value.([]map[string]any)
	if !ok || len(blocks) != 1 {
		return errors.New("items: one block is expected")
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
			return fmt.Errorf("items.%s: a string is expected", name)
		}
	}
	return nil
}

// addItems adds the items of arguments "name=value". A value "@file" is the content of the
// file, "-" that of standard input; "\@" and "\-" begin a value that is none of these.
func addItems(e *term.Env, args []string, to api.VariableItems) error {
	stdin := 0
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		if !ok || name == "" {
			return fmt.Errorf("Invalid item %q: name=value is expected", name)
		}
		switch {
		case isReference(value):
			if value == "-" {
				stdin++
			}
			if stdin > 1 {
				return errors.New("Standard input can be the value of one item only")
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
		{"create_index", strconv.FormatUint(v.CreateIndex, 10), v.CreateIndex != 0}, {"modify_index", strconv.FormatUint(v.ModifyIndex, 10), v.ModifyIndex != 0},
		{"create_time", strconv.FormatInt(v.CreateTime, 10), v.CreateTime != 0}, {"modify_time", strconv.FormatInt(v.ModifyTime, 10), v.ModifyTime != 0},
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

// quoted is a text as HCL has it.
func quoted(text string) string { return strconv.Quote(text) }
