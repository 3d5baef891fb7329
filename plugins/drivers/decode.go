package drivers

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	hcljson "github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// Decode decodes a config block, of a plugin or of a task, with the schema of its driver. Strings
// are literal, since references are interpolated before. Unknown arguments are an error. hcldec
// reads the block in HCL's JSON syntax.
func Decode(block map[string]any, spec hcldec.Spec) (cty.Value, error) {
	if field, err := BoundNames(block); err != nil {
		return cty.NilVal, fmt.Errorf("config: %q: %w", field, err)
	}
	if err := known(block, spec); err != nil {
		return cty.NilVal, err
	}
	if block == nil {
		block = map[string]any{}
	}
	src, err := json.Marshal(block)
	if err != nil {
		return cty.NilVal, fmt.Errorf("config: %w", err)
	}
	file, diags := hcljson.Parse(src, "config")
	if diags.HasErrors() {
		return cty.NilVal, faults(diags)
	}
	val, diags := hcldec.Decode(file.Body, spec, nil) // strings are literal without a context
	if diags.HasErrors() {
		return cty.NilVal, faults(diags)
	}
	return val, nil
}

// known refuses arguments that the schema does not have, by name.
func known(given map[string]any, spec hcldec.Spec) error {
	schema := hcldec.ImpliedSchema(spec)
	var names []string
	for _, a := range schema.Attributes {
		names = append(names, a.Name)
	}
	for _, b := range schema.Blocks {
		names = append(names, b.Type)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("unknown argument %q in config; expected one of: %s%s", name, strings.Join(names, ", "),
				nearest(name, names)))
		}
	}
	return errors.Join(errs...)
}

// nearest returns a question with the most similar known name, or "".
func nearest(name string, names []string) string {
	for _, known := range names {
		if levenshtein.Distance(name, known, nil) < 3 {
			return fmt.Sprintf("; did you mean %q?", known)
		}
	}
	return ""
}

// faults joins all diagnostics in one error, without their positions, since the source is
// generated.
func faults(diags hcl.Diagnostics) error {
	var errs []error
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			errs = append(errs, fmt.Errorf("config: %s: %s", d.Summary, d.Detail))
		}
	}
	return errors.Join(errs...)
}
