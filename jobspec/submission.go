package jobspec

import (
	"maps"
	"net/url"
	"slices"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/open-nomad/open-nomad/api"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// Submission returns the source of a job and the values of its variables. Servers keep
// it with the job, so that a user can edit and submit it again. Strings, numbers and
// booleans are flags (URL-escaped). Other values are in a variable file. If Parse
// fails for cfg, the result has only the source.
func Submission(cfg Config) *api.JobSubmission {
	sub := &api.JobSubmission{Source: string(cfg.Source), Format: "hcl2"}
	if cfg.JSON || isJSON(cfg.Source) {
		sub.Format = "json"
		return sub
	}
	p := newParser(cfg)
	body := p.syntax(cfg.Filename, cfg.Source)
	if body == nil {
		return sub
	}
	vars := p.declareAll(p.split(body))
	p.assign(vars)
	if p.diags.HasErrors() {
		return sub
	}
	file := hclwrite.NewEmptyFile()
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		v := vars[name]
		if !v.given {
			continue
		}
		text, err := convert.Convert(v.value, cty.String)
		if err != nil || text.IsNull() {
			file.Body().SetAttributeValue(name, v.value)
			continue
		}
		if sub.VariableFlags == nil {
			sub.VariableFlags = map[string]string{}
		}
		sub.VariableFlags[name] = url.QueryEscape(text.AsString())
	}
	sub.Variables = string(file.Bytes())
	return sub
}
