package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// maxFaults limits the reported faults of a block.
const maxFaults = 8

// Fault is a part of a config block that its schema does not accept.
type Fault struct {
	Field  string // argument or block of the config block; empty for a missing one, which Reason names
	Reason string // with the nearest known name, if there is one
}

// String returns the fault as a sentence.
func (f Fault) String() string {
	if f.Field == "" {
		return "config: " + f.Reason
	}
	return fmt.Sprintf("config: %q: %s", f.Field, f.Reason)
}

// reference is the name of the variable in place of all references.
const reference = "reference"

// unknown gives references a value of an unknown type, which hcldec converts to any type.
var unknown = &hcl.EvalContext{Variables: map[string]cty.Value{reference: cty.DynamicVal}}

// Check returns the faults of a config block whose references are not interpolated, or nil. hcldec
// reads the block in HCL's JSON syntax, as the driver does.
func Check(block map[string]any, spec hcldec.Spec) []Fault {
	if field, err := drivers.BoundNames(block); err != nil {
		return []Fault{{field, err.Error()}}
	}
	fields := slices.Sorted(maps.Keys(block))
	src, err := encode(fields, block)
	if err != nil {
		return []Fault{{Reason: err.Error()}}
	}
	return check(src, fields, spec)
}

// check decodes an encoded block.
func check(src []byte, fields []string, spec hcldec.Spec) []Fault {
	file, diags := hcljson.Parse(src, "config")
	if !diags.HasErrors() {
		_, diags = hcldec.Decode(file.Body, spec, unknown)
	}
	var given, missing []Fault // a misspelled argument explains a missing one
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		if f := fault(d, fields); f.Field != "" {
			given = append(given, f)
		} else {
			missing = append(missing, f)
		}
	}
	all := append(given, missing...)
	return all[:min(len(all), maxFaults)]
}

// encode writes the block as JSON, with one field on each line from the second on. The line of a
// diagnostic thus identifies its field.
func encode(fields []string, block map[string]any) ([]byte, error) {
	var out strings.Builder
	out.WriteString("{\n")
	for i, name := range fields {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(mask(block[name]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if i > 0 {
			out.WriteString(",\n")
		}
		fmt.Fprintf(&out, "%s: %s", key, value)
	}
	out.WriteString("\n}")
	return []byte(out.String()), nil
}

// mask replaces strings with references by the variable. Other strings are escaped, since they are
// literal.
func mask(v any) any {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "${") {
			return "${" + reference + "}"
		}
		return strings.ReplaceAll(v, "%{", "%%{")
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = mask(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, e := range v {
			out[literal(key)] = mask(e)
		}
		return out
	case []map[string]any: // blocks, before they are sent
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = mask(e)
		}
		return out
	}
	return v
}

// literal escapes a key, which is a template too.
func literal(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "${", "$${"), "%{", "%%{")
}

// fault converts a diagnostic. Its position is that of the generated source.
func fault(d *hcl.Diagnostic, fields []string) Fault {
	out := Fault{Reason: d.Detail}
	if d.Subject != nil {
		if at := d.Subject.Start.Line - 2; at >= 0 && at < len(fields) {
			out.Field = fields[at]
		}
	}
	if out.Reason == "" {
		out.Reason = d.Summary
	}
	out.Reason = strings.TrimSuffix(strings.ReplaceAll(out.Reason, "\n", " "), ".")
	return out
}
