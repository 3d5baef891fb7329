package jobspec

import (
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// assignFile sets variables from a variable file in HCL or JSON.
func (p *parser) assignFile(vars map[string]*variable, path string) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxSource {
		err = fmt.Errorf("larger than %d MiB", maxSource>>20)
	}
	var src []byte
	if err == nil {
		src, err = os.ReadFile(path)
	}
	if err != nil {
		p.errorf(hcl.Range{Filename: path}, "Cannot read variable file", "%v", err)
		return
	}
	p.assignContent(vars, path, src)
}

// assignContent sets variables from the text of a variable file.
func (p *parser) assignContent(vars map[string]*variable, name string, src []byte) {
	p.sources[name] = src
	if len(src) > maxSource {
		p.errorf(hcl.Range{Filename: name}, "Variable file too large", "The maximum is %d MiB.", maxSource>>20)
		return
	}
	if isJSON(src) {
		p.assignJSON(vars, name, src)
		return
	}
	body := p.syntax(name, src)
	if body == nil {
		return
	}
	for _, b := range body.Blocks {
		p.errorf(b.TypeRange, "Unexpected block", "A variable file has only name = value pairs. Declare variables in the job file.")
	}
	for _, a := range sortedAttributes(body) {
		v := vars[a.Name]
		if v == nil {
			p.undeclared(a.Name, a.NameRange)
			continue
		}
		p.assignExpr(v, a.Expr)
	}
}

func (p *parser) assignExpr(v *variable, e hclsyntax.Expression) {
	val := p.constant(e)
	if val == cty.NilVal {
		return
	}
	v.value, v.valueAt, v.given = val, e.Range(), true
	p.convert(v)
}

// assignJSON sets variables from a JSON object.
func (p *parser) assignJSON(vars map[string]*variable, name string, src []byte) {
	at := hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}
	if !p.shallow(name, src) {
		return
	}
	t, err := ctyjson.ImpliedType(src)
	if err != nil {
		p.errorf(at, "Invalid variable file", "%v", err)
		return
	}
	obj, err := ctyjson.Unmarshal(src, t)
	if err != nil || !t.IsObjectType() {
		p.errorf(at, "Invalid variable file", "Expected a JSON object of variables.")
		return
	}
	for attr := range t.AttributeTypes() {
		v := vars[attr]
		if v == nil {
			p.undeclared(attr, at)
			continue
		}
		v.value, v.valueAt, v.given = obj.GetAttr(attr), at, true
		p.convert(v)
	}
}
