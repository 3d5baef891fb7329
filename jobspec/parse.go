package jobspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/open-nomad/open-nomad/api"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Config says what to parse and with which values.
type Config struct {
	// Filename is what errors call the source; file functions are relative to
	// its directory.
	Filename string
	Source   []byte
	// JSON says that the source is a job as the HTTP API shows it. It is also
	// recognized without this.
	JSON bool

	// Values of input variables, a later one wins: Env (NOMAD_VAR_<name>=value
	// entries of an environment), VarFiles (paths, in order), VarContent (the
	// text of a variable file), Vars (name=value).
	Env        []string
	VarFiles   []string
	VarContent string
	Vars       []string
	// Strict makes values for undeclared variables an error.
	Strict bool
	// AllowFS permits the functions that read files.
	AllowFS bool
}

// Bounds of a file. The library's HCL parser takes time quadratic in the lines of a
// heredoc, and in the pieces that $ and % divide a string into.
const (
	maxSource = 8 << 20 // in JSON
	maxHCL    = 1 << 20
)

// Parse returns the job of the source. Its defaults are not filled in: see
// api.Job.Canonicalize. An error about the text is an *Error that lists every
// fault with its place.
func Parse(cfg Config) (*api.Job, error) {
	if cfg.Filename == "" {
		cfg.Filename = "job.hcl"
	}
	if len(cfg.Source) > maxSource {
		return nil, fmt.Errorf("%s is larger than %d MiB", cfg.Filename, maxSource>>20)
	}
	if cfg.JSON || isJSON(cfg.Source) {
		return parseJSON(cfg)
	}
	p := newParser(cfg)
	job := p.parse()
	if p.diags.HasErrors() {
		return nil, p.err()
	}
	return job, nil
}

func isJSON(src []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(src, " \t\r\n"), []byte("{"))
}

// parseJSON reads a job as the HTTP API shows it, alone or within {"Job": ...}.
func parseJSON(cfg Config) (*api.Job, error) {
	var wrapped struct{ Job *api.Job }
	if err := json.Unmarshal(cfg.Source, &wrapped); err != nil {
		return nil, jsonError(cfg, err)
	}
	if wrapped.Job == nil {
		wrapped.Job = &api.Job{}
		if err := json.Unmarshal(cfg.Source, wrapped.Job); err != nil {
			return nil, jsonError(cfg, err)
		}
	}
	if wrapped.Job.ID == nil || *wrapped.Job.ID == "" {
		return nil, fmt.Errorf("%s: the JSON holds no job: expected an object with an ID, or one with a Job", cfg.Filename)
	}
	return wrapped.Job, nil
}

// jsonError adds the place to an error of the JSON decoder.
func jsonError(cfg Config, err error) error {
	offset := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
		err = fmt.Errorf("%s must be %s, not %s", kind.Field, kind.Type, kind.Value)
	}
	if offset < 1 || offset > int64(len(cfg.Source)) {
		return fmt.Errorf("%s: %w", cfg.Filename, err)
	}
	before := cfg.Source[:offset-1]
	pos := hcl.Pos{
		Line:   bytes.Count(before, []byte("\n")) + 1,
		Column: len(before) - bytes.LastIndexByte(before, '\n'),
		Byte:   len(before),
	}
	return &Error{
		diags: hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Invalid JSON", Detail: err.Error(),
			Subject: &hcl.Range{Filename: cfg.Filename, Start: pos, End: pos},
		}},
		sources: map[string][]byte{cfg.Filename: cfg.Source},
	}
}

// parser holds what one Parse builds up.
type parser struct {
	cfg       Config
	sources   map[string][]byte
	diags     hcl.Diagnostics
	budget    budget
	functions map[string]function.Function
	root      *scope
	blocks    int
	at        map[*api.Constraint]hcl.Range // where each constraint is
}

func newParser(cfg Config) *parser {
	p := &parser{cfg: cfg, at: map[*api.Constraint]hcl.Range{}, sources: map[string][]byte{cfg.Filename: cfg.Source}}
	p.functions = p.budget.guard(functions())
	if cfg.AllowFS {
		for name, f := range fileFunctions(filepath.Dir(cfg.Filename)) {
			p.functions[name] = f
		}
	} else {
		for name := range fileFunctions(".") {
			p.functions[name] = disabledFunction(name)
		}
	}
	return p
}

// parse reads the file from top to bottom. Each step goes on after errors of its
// own, so that one run shows as many as possible; the next begins only when
// there were none.
func (p *parser) parse() *api.Job {
	body := p.syntax(p.cfg.Filename, p.cfg.Source)
	if body == nil {
		return nil
	}
	top := p.split(body)
	values := p.variables(top)
	if p.diags.HasErrors() {
		return nil
	}
	p.root = &scope{
		ctx:   &hcl.EvalContext{Functions: p.functions, Variables: map[string]cty.Value{"var": values}},
		known: map[string]bool{"var": true, "local": true},
	}
	p.root.ctx.Variables["local"] = p.locals(top.locals)
	if p.diags.HasErrors() {
		return nil
	}
	return p.job(top.job)
}

// syntax parses a file, nil when it is not HCL.
func (p *parser) syntax(name string, src []byte) *hclsyntax.Body {
	if !p.parsable(name, src) {
		return nil
	}
	f, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	p.report(diags)
	if diags.HasErrors() {
		return nil
	}
	return f.Body.(*hclsyntax.Body)
}

// topLevel are the blocks of a file by their kind.
type topLevel struct {
	job       *hclsyntax.Block
	variables []*hclsyntax.Block
	legacy    []*hclsyntax.Block
	locals    []*hclsyntax.Block
}

// split sorts the top level blocks.
func (p *parser) split(body *hclsyntax.Body) topLevel {
	var top topLevel
	var jobs []*hclsyntax.Block
	for _, a := range sortedAttributes(body) {
		p.errorf(a.NameRange, "Unsupported argument", "%q is not expected here: a job file holds job, variable, variables and locals blocks.", a.Name)
	}
	for _, b := range body.Blocks {
		want, known := topLabels[b.Type]
		if !known {
			p.errorf(b.TypeRange, "Unsupported block type", "%q is not expected here: a job file holds job, variable, variables and locals blocks.", b.Type)
			continue
		}
		if !p.checkLabels(b.Type, b.DefRange(), len(b.Labels), want) {
			continue
		}
		switch b.Type {
		case "job":
			jobs = append(jobs, b)
		case "variable":
			top.variables = append(top.variables, b)
		case "variables":
			top.legacy = append(top.legacy, b)
		case "locals":
			top.locals = append(top.locals, b)
		}
	}
	switch {
	case len(jobs) > 1:
		p.errorf(jobs[1].DefRange(), "Duplicate job block", "A file holds one job; the first is at %s.", jobs[0].DefRange())
	case len(jobs) == 1:
		top.job = jobs[0]
	case !p.diags.HasErrors():
		p.errorf(body.MissingItemRange(), "Missing job block", "Expected a block of the form: job \"<name>\" { ... }")
	}
	return top
}

// topLabels are the top level blocks and how many labels each has.
var topLabels = map[string]int{"job": 1, "variable": 1, "variables": 0, "locals": 0}

// checkLabels says whether a block has the labels that it needs.
func (p *parser) checkLabels(kind string, at hcl.Range, have, want int) bool {
	switch {
	case have == want:
		return true
	case want == 0:
		p.errorf(at, "Extraneous label", "A %s block has no label: write %s { ... }", kind, kind)
	default:
		p.errorf(at, "Missing or extraneous label", "A %s block has exactly one label, its name: write %s \"<name>\" { ... }", kind, kind)
	}
	return false
}
