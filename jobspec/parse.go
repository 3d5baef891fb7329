package jobspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/open-nomad/open-nomad/api"
)

// Config holds the source and the options of Parse.
type Config struct {
	// Filename is the name of the source in errors. Paths of file functions are
	// relative to its directory.
	Filename string
	Source   []byte
	// JSON means that the source is a job in the JSON format of the HTTP API.
	// Such a source is also detected without it.
	JSON bool

	// The sources of variable values, in ascending precedence: Env (entries
	// NOMAD_VAR_<name>=value of an environment), VarFiles (paths), VarContent (the
	// text of a variable file), Vars (name=value).
	Env        []string
	VarFiles   []string
	VarContent string
	Vars       []string
	// Strict makes values for undeclared variables an error.
	Strict bool
	// AllowFS enables the functions that read files.
	AllowFS bool
}

// Size limits of a file. The time of the HCL parser is quadratic in the lines of a
// heredoc, and in the parts of a string between $ and % characters.
const (
	maxSource = 8 << 20 // in JSON
	maxHCL    = 1 << 20
)

// Parse parses the source. It does not set defaults: see workload.Job.Canonicalize. A
// syntax or semantic error is an *Error that lists all faults with their positions.
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

// parseJSON parses a job in the format of the HTTP API, optionally inside {"Job": ...}.
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
		return nil, fmt.Errorf("%s: no job in the JSON: expected an object with the key ID or Job", cfg.Filename)
	}
	return wrapped.Job, nil
}

// jsonError adds the position to an error of the JSON decoder.
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

// parser holds the state of one Parse.
type parser struct {
	cfg       Config
	sources   map[string][]byte
	diags     hcl.Diagnostics
	budget    budget
	functions map[string]function.Function
	root      *scope
	blocks    int
	at        map[*api.Constraint]hcl.Range // the position of each constraint
	// nodeConfig is set in the config of a task, whose references can contain calls of functions.
	nodeConfig bool
	// resolve returns the value of a reference on a node; nil in a job file, where it stays as it is.
	resolve func(reference string) string
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

// parse runs the steps of the package doc. A step continues after an error, to report
// as many errors as possible. The next step starts only if there was no error.
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

// syntax parses a file. It returns nil for invalid HCL.
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

// topLevel holds the top-level blocks of a file by type.
type topLevel struct {
	job       *hclsyntax.Block
	variables []*hclsyntax.Block
	legacy    []*hclsyntax.Block
	locals    []*hclsyntax.Block
}

// split groups the top-level blocks by type.
func (p *parser) split(body *hclsyntax.Body) topLevel {
	var top topLevel
	var jobs []*hclsyntax.Block
	for _, a := range sortedAttributes(body) {
		p.errorf(a.NameRange, "Unsupported argument",
			"%q is not expected here: a job file has only job, variable, variables and locals blocks.", a.Name)
	}
	for _, b := range body.Blocks {
		want, known := topLabels[b.Type]
		if !known {
			p.errorf(b.TypeRange, "Unsupported block type",
				"%q is not expected here: a job file has only job, variable, variables and locals blocks.", b.Type)
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
		p.errorf(jobs[1].DefRange(), "Duplicate job block", "Only one job block is allowed in a file; the first is at %s.", jobs[0].DefRange())
	case len(jobs) == 1:
		top.job = jobs[0]
	case !p.diags.HasErrors():
		p.errorf(body.MissingItemRange(), "Missing job block", "Expected a block of the form: job \"<name>\" { ... }")
	}
	return top
}

// topLabels holds the number of labels of each top-level block.
var topLabels = map[string]int{"job": 1, "variable": 1, "variables": 0, "locals": 0}

// checkLabels reports whether a block has the right number of labels.
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
