package jobspec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
)

// Limits of the calls in the config of one task.
const (
	maxCall  = 2048 // bytes of one call
	maxCalls = 1000
)

// impure are functions whose result is not determined by their arguments. A node does not call them: a restart of the task
// would get another config.
var impure = map[string]bool{"bcrypt": true, "uuidv4": true}

// onText are the functions that compute with the text of their arguments. If an argument has a value that only the node has,
// the node calls them. Other functions, such as format and join, keep a reference as it is.
var onText = map[string]bool{
	"base64decode": true, "base64encode": true, "chomp": true, "cidrhost": true, "cidrnetmask": true, "csvdecode": true,
	"formatdate": true, "jsondecode": true, "lower": true, "md5": true, "parseint": true, "regex_replace": true,
	"replace": true, "sha1": true, "sha256": true, "sha512": true, "split": true, "strlen": true, "strrev": true, "substr": true,
	"timeadd": true, "title": true, "trim": true, "trimprefix": true, "trimspace": true, "trimsuffix": true, "upper": true,
	"urlencode": true, "uuidv5": true, "yamldecode": true,
}

// onFiles are the functions that access the file system.
var onFiles = fileFunctions(".")

// Calls evaluates the calls of functions in references of one task's config, such as ${upper(node.unique.name)}. All calls
// have one budget.
type Calls struct {
	lookup func(reference string) (value string, known bool)
	parser *parser
	count  int
}

// NewCalls returns a Calls for the references that lookup knows.
func NewCalls(lookup func(reference string) (value string, known bool)) *Calls {
	p := &parser{sources: map[string][]byte{}}
	pure := map[string]function.Function{}
	for name, f := range functions() {
		if !impure[name] {
			pure[name] = f
		}
	}
	p.functions = p.budget.guard(pure)
	return &Calls{lookup: lookup, parser: p}
}

// Call evaluates the call at the beginning of s, which follows "${". Its length includes the closing brace, and is 0 if s
// does not begin with a call. The error does not contain values.
func (c *Calls) Call(s string) (value string, length int, err error) {
	call, length := c.parse(s)
	if length == 0 {
		return "", 0, nil
	}
	if c.count++; c.count > maxCalls {
		return "", length, fmt.Errorf("a config has at most %d calls of functions", maxCalls)
	}
	text := s[:length-1]
	value, err = c.evaluate(call, text)
	if err != nil {
		return "", length, fmt.Errorf("${%s}: %w", text, err)
	}
	return value, length, nil
}

// parse returns the call at the beginning of s, and its length with the closing brace; 0 if there is none.
func (c *Calls) parse(s string) (*hclsyntax.FunctionCallExpr, int) {
	name, _, found := strings.Cut(s[:min(len(s), maxCall)], "(")
	if _, known := c.parser.functions[strings.TrimSpace(name)]; !found || !known {
		return nil, 0
	}
	tokens, _ := hclsyntax.LexExpression([]byte(s[:min(len(s), maxCall)]), "config", hcl.InitialPos) // the parser reports errors
	end, depth := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
		case hclsyntax.TokenCBrace, hclsyntax.TokenTemplateSeqEnd:
			depth--
		}
		if depth < 0 {
			end = t.Range.Start.Byte
			break
		}
	}
	if end == 0 || len(scan(tokens)) > 0 {
		return nil, 0
	}
	e, diags := hclsyntax.ParseExpression([]byte(s[:end]), "config", hcl.InitialPos)
	call, ok := e.(*hclsyntax.FunctionCallExpr)
	if diags.HasErrors() || !ok {
		return nil, 0
	}
	return call, end + 1
}

// evaluate returns the value of a call as text.
func (c *Calls) evaluate(call *hclsyntax.FunctionCallExpr, text string) (string, error) {
	p := c.parser
	var missing error
	p.sources["config"], p.diags = []byte(text), nil
	p.resolve = func(reference string) string {
		value, known := c.lookup(reference)
		if !known && missing == nil {
			missing = fmt.Errorf("no value for ${%s}", reference)
		}
		return value
	}
	v, ok := p.eval(call, &scope{ctx: &hcl.EvalContext{Functions: p.functions}})
	switch {
	case missing != nil:
		return "", missing
	case !ok: // the message can contain values of the task's environment
		return "", fmt.Errorf("%s (the message can contain values and is omitted)", strings.ToLower(p.diags[0].Summary))
	}
	v, err := convert.Convert(v, cty.String)
	if err != nil || v.IsNull() {
		return "", errors.New("its value is not a text or a number: use join, element or lookup")
	}
	return v.AsString(), nil
}

// defers reports whether the node must evaluate a call in the config of a task, and returns its text as a reference.
func (p *parser) defers(e *hclsyntax.FunctionCallExpr, known map[string]bool) (hclsyntax.Expression, bool) {
	if !p.nodeConfig || !p.computes(e, known) {
		return nil, false
	}
	// A list is a value of the job, with references in it.
	p.nodeConfig = false
	v, diags := p.prepare(e, known).Value(p.root.ctx)
	p.nodeConfig = true
	if t := v.Type(); !diags.HasErrors() && (t.IsTupleType() || t.IsObjectType() || t.IsCollectionType()) {
		return nil, false
	}
	return p.verbatim(e), true
}

// computes reports whether a call, or one in its arguments, computes with the text of a value that only the node has. Calls
// that use values of the file too, or impure functions, are evaluated here.
func (p *parser) computes(e *hclsyntax.FunctionCallExpr, known map[string]bool) bool {
	found, own := false, false
	hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics { //nolint:errcheck // it returns what the function returns
		switch n := n.(type) {
		case *hclsyntax.ScopeTraversalExpr:
			own = own || known[n.Traversal.RootName()]
		case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
			own = true
		case *hclsyntax.FunctionCallExpr:
			_, file := onFiles[n.Name]
			own = own || file || impure[n.Name]
			found = found || onText[n.Name] && len(n.Variables()) > 0
		}
		return nil
	})
	return found && !own
}
