package driverset

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcldec"
	hcljson "github.com/hashicorp/hcl/v2/json"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// configure gives a driver its plugin block, decoded by the driver's own schema.
func configure(d drivers.Driver, block map[string]any) error {
	if block == nil {
		block = map[string]any{}
	}
	src, err := json.Marshal(block)
	if err != nil {
		return fmt.Errorf("plugin %q: %w", d.Name(), err)
	}
	file, diags := hcljson.Parse(src, d.Name())
	if diags.HasErrors() {
		return faults(d.Name(), diags)
	}
	// Without a context strings are literal.
	val, diags := hcldec.Decode(file.Body, d.ConfigSpec(), nil)
	if diags.HasErrors() {
		return faults(d.Name(), diags)
	}
	if err := d.SetConfig(val); err != nil {
		return fmt.Errorf("plugin %q: %w", d.Name(), err)
	}
	return nil
}

// faults makes one error of all diagnostics, without the places, which are those
// of a generated text.
func faults(driver string, diags hcl.Diagnostics) error {
	var errs []error
	for _, diag := range diags {
		if diag.Severity == hcl.DiagError {
			errs = append(errs, fmt.Errorf("plugin %q: %s: %s", driver, diag.Summary, diag.Detail))
		}
	}
	return errors.Join(errs...)
}
