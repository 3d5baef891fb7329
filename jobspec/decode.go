package jobspec

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/api"
)

// maxBlocks is the maximum number of blocks that dynamic blocks expand to.
const maxBlocks = 20000

// field is an attribute or block of a struct. Its hcl tag is "name", "name,block",
// "name,block|attr" (a map in either form) or ",label".
type field struct {
	name  string
	index []int
	attr  bool
	block bool
}

// schema lists the attributes, blocks and labels of a struct.
type schema struct {
	fields map[string]field
	label  []int
}

var schemas sync.Map // reflect.Type → *schema

// schemaOf returns the schema of a struct and its embedded structs.
func schemaOf(t reflect.Type) *schema {
	if s, ok := schemas.Load(t); ok {
		return s.(*schema)
	}
	s := &schema{fields: map[string]field{}}
	for _, f := range reflect.VisibleFields(t) {
		tag, ok := f.Tag.Lookup("hcl")
		if !ok {
			continue
		}
		name, kind, _ := strings.Cut(tag, ",")
		if kind == "label" {
			s.label = f.Index
			continue
		}
		s.fields[name] = field{name: name, index: f.Index, attr: kind != "block", block: kind != ""}
	}
	schemas.Store(t, s)
	return s
}

// block is a block of the file, or one that a dynamic block expanded to.
type block struct {
	kind   string
	labels []string
	body   *hclsyntax.Body
	scope  *scope
	at     hcl.Range
}

// target is a struct that is being filled from a body.
type target struct {
	value  reflect.Value
	schema *schema
	// seen holds the position of each non-repeatable block or argument by name.
	seen map[string]hcl.Range
}

// decode fills the structs that dst point to from a block. A name must be in the
// schema of at least one of them. If it is in several, the last one gets the value.
func (p *parser) decode(b block, dst ...any) {
	targets := make([]*target, len(dst))
	for i, d := range dst {
		v := reflect.ValueOf(d).Elem()
		targets[i] = &target{value: v, schema: schemaOf(v.Type()), seen: map[string]hcl.Range{}}
		if label := targets[i].schema.label; label != nil && len(b.labels) > 0 {
			p.setLabel(v.FieldByIndex(label), b.labels[0])
		}
	}
	find := func(name string) (*target, field, bool) {
		for _, t := range slices.Backward(targets) {
			if f, ok := t.schema.fields[name]; ok {
				return t, f, true
			}
		}
		return nil, field{}, false
	}
	for _, a := range sortedAttributes(b.body) {
		t, f, ok := find(a.Name)
		switch {
		case !ok:
			p.errorf(a.NameRange, "Unsupported argument", "%q is not expected here; expected one of: %s.", a.Name, expected(targets, field.isAttr))
		case !f.attr && !isMap(t.value.FieldByIndex(f.index)):
			p.errorf(a.NameRange, "Unsupported argument", "%q is a block: write %s { ... } without the equals sign.", a.Name, a.Name)
		default:
			t.seen[f.name] = a.NameRange // a map is either an argument or a block
			p.nodeConfig = t.isTaskConfig(f)
			if v, ok := p.eval(a.Expr, b.scope); ok {
				p.assignValue(t.value.FieldByIndex(f.index), v, a)
			}
			p.nodeConfig = false
		}
	}
	for _, child := range p.children(b) {
		t, f, ok := find(child.kind)
		switch {
		case !ok:
			p.errorf(child.at, "Unsupported block type", "A %s block is not expected here; expected one of: %s.", child.kind,
				expected(targets, field.isBlock))
		case !f.block:
			p.errorf(child.at, "Unsupported block type", "%q is an argument: write %s = <value>.", child.kind, child.kind)
		default:
			p.decodeChild(t, f, child)
		}
	}
}

func (f field) isAttr() bool { return f.attr }

func (f field) isBlock() bool { return f.block }

// setLabel stores a label in a string or a pointer to a string.
func (p *parser) setLabel(dst reflect.Value, label string) {
	if dst.Kind() == reflect.Pointer {
		dst.Set(reflect.ValueOf(&label))
		return
	}
	dst.SetString(label)
}

// expected lists the valid names of a body, for an error.
func expected(targets []*target, which func(field) bool) string {
	names := []string{}
	for _, t := range targets {
		for name, f := range t.schema.fields {
			if which(f) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(slices.Compact(names), ", ")
}

// isTaskConfig reports whether a field is the config of a task's driver.
func (t *target) isTaskConfig(f field) bool {
	return f.name == "config" && t.value.Type() == reflect.TypeFor[api.Task]()
}

func isMap(v reflect.Value) bool {
	return v.Kind() == reflect.Map && v.Type().Elem().Kind() != reflect.Pointer
}

// decodeChild fills one field from a block.
func (p *parser) decodeChild(t *target, f field, b block) {
	dst := t.value.FieldByIndex(f.index)
	repeats := dst.Kind() == reflect.Slice || dst.Kind() == reflect.Map && !isMap(dst)
	if first, dup := t.seen[f.name]; dup && !repeats {
		p.errorf(b.at, "Duplicate "+b.kind+" block", "Only one %s block is allowed here; the first is at %s.", b.kind, first)
		return
	}
	t.seen[f.name] = b.at
	switch dst.Kind() {
	case reflect.Map:
		p.nodeConfig = t.isTaskConfig(f)
		p.decodeMap(dst, b)
		p.nodeConfig = false
	case reflect.Slice:
		elem := dst.Type().Elem()
		if v, ok := p.decodeStruct(elem, b); ok {
			dst.Set(reflect.Append(dst, v))
		}
	default:
		if v, ok := p.decodeStruct(dst.Type(), b); ok {
			dst.Set(v)
		}
	}
}

// decodeStruct decodes a block to a struct or a pointer to a struct.
func (p *parser) decodeStruct(t reflect.Type, b block) (reflect.Value, bool) {
	elem := t
	if t.Kind() == reflect.Pointer {
		elem = t.Elem()
	}
	labels := 0
	if schemaOf(elem).label != nil {
		labels = 1
	}
	if !p.checkLabels(b.kind, b.at, len(b.labels), labels) {
		return reflect.Value{}, false
	}
	v := reflect.New(elem)
	if !p.decodeShort(b, v.Interface()) {
		p.decode(b, v.Interface())
	}
	if t.Kind() == reflect.Pointer {
		return v, true
	}
	return v.Elem(), true
}

// decodeMap fills a map of structs by label, or of values by name.
func (p *parser) decodeMap(dst reflect.Value, b block) {
	t := dst.Type()
	if dst.IsNil() {
		dst.Set(reflect.MakeMap(t))
	}
	if !isMap(dst) {
		if !p.checkLabels(b.kind, b.at, len(b.labels), 1) {
			return
		}
		key := reflect.ValueOf(b.labels[0])
		if dst.MapIndex(key).IsValid() {
			p.errorf(b.at, "Duplicate block", "There is another %s block with the name %q.", b.kind, b.labels[0])
			return
		}
		v := reflect.New(t.Elem().Elem())
		p.decode(b, v.Interface())
		if name := v.Elem().FieldByName("Name"); name.IsValid() {
			name.SetString(b.labels[0])
		}
		dst.SetMapIndex(key, v)
		return
	}
	if !p.checkLabels(b.kind, b.at, len(b.labels), 0) {
		return
	}
	if t.Elem().Kind() == reflect.Interface {
		for k, v := range p.anyBody(b) {
			dst.SetMapIndex(reflect.ValueOf(k), reflect.ValueOf(v))
		}
		return
	}
	for _, blk := range p.children(b) {
		p.errorf(blk.at, "Unsupported block type", "A %s block has only name = value pairs.", b.kind)
	}
	for _, a := range sortedAttributes(b.body) {
		v, ok := p.eval(a.Expr, b.scope)
		if !ok || v.IsNull() {
			continue
		}
		elem := reflect.New(t.Elem()).Elem()
		if p.assignValue(elem, v, a) {
			dst.SetMapIndex(reflect.ValueOf(a.Name), elem)
		}
	}
}

// anyBody decodes a body without a schema. Blocks become lists of maps by block type.
// Each label adds an enclosing map.
func (p *parser) anyBody(b block) map[string]any {
	out := map[string]any{}
	for _, a := range sortedAttributes(b.body) {
		v, ok := p.eval(a.Expr, b.scope)
		if !ok || v.IsNull() {
			continue
		}
		out[a.Name] = anyValue(v)
	}
	for _, child := range p.children(b) {
		content := p.anyBody(child)
		for _, label := range slices.Backward(child.labels) {
			content = map[string]any{label: []map[string]any{content}}
		}
		list, ok := out[child.kind].([]map[string]any)
		if _, taken := out[child.kind]; taken && !ok {
			p.errorf(child.at, "Duplicate name", "%q is both an argument and a block.", child.kind)
			continue
		}
		out[child.kind] = append(list, content)
	}
	return out
}

// children returns the blocks of a body, with dynamic blocks expanded.
func (p *parser) children(b block) []block {
	var out []block
	for _, blk := range b.body.Blocks {
		if blk.Type == "dynamic" && len(blk.Labels) == 1 {
			out = append(out, p.dynamic(blk, b.scope)...)
			continue
		}
		out = append(out, block{kind: blk.Type, labels: blk.Labels, body: blk.Body, scope: b.scope, at: blk.DefRange()})
	}
	return out
}

// dynamic returns one block for each element of for_each.
func (p *parser) dynamic(blk *hclsyntax.Block, sc *scope) []block {
	kind, at := blk.Labels[0], blk.DefRange()
	d, ok := p.dynamicParts(blk)
	if !ok {
		return nil
	}
	list, ok := p.eval(d.forEach.Expr, sc)
	if !ok {
		return nil
	}
	if list.IsNull() || !list.CanIterateElements() {
		p.errorf(d.forEach.Expr.Range(), "Invalid for_each", "for_each must be a list, set, map or object, not %s.", list.Type().FriendlyName())
		return nil
	}
	iterator := kind
	if d.iterator != nil {
		if iterator = hcl.ExprAsKeyword(d.iterator.Expr); iterator == "" {
			p.errorf(d.iterator.Expr.Range(), "Invalid iterator", "iterator must be an identifier without quotes.")
			return nil
		}
	}
	var out []block
	for it := list.ElementIterator(); it.Next(); {
		if p.blocks++; p.blocks > maxBlocks {
			p.errorf(at, "Too many blocks", "Dynamic blocks may expand to at most %d blocks in total.", maxBlocks)
			return nil
		}
		key, value := it.Element()
		if list.Type().IsSetType() {
			key = value
		}
		inner := sc.with(iterator, cty.ObjectVal(map[string]cty.Value{"key": key, "value": value}))
		labels, ok := p.dynamicLabels(d.labels, inner)
		if !ok {
			return nil
		}
		out = append(out, block{kind: kind, labels: labels, body: d.content, scope: inner, at: at})
	}
	return out
}

// dynamicBlock holds the parts of a dynamic block.
type dynamicBlock struct {
	forEach, iterator, labels *hclsyntax.Attribute
	content                   *hclsyntax.Body
}

func (p *parser) dynamicParts(blk *hclsyntax.Block) (dynamicBlock, bool) {
	d := dynamicBlock{}
	before := len(p.diags)
	for _, a := range sortedAttributes(blk.Body) {
		switch a.Name {
		case "for_each":
			d.forEach = a
		case "iterator":
			d.iterator = a
		case "labels":
			d.labels = a
		default:
			p.errorf(a.NameRange, "Unsupported argument", "%q is not expected here; expected one of: for_each, iterator, labels.", a.Name)
		}
	}
	for _, c := range blk.Body.Blocks {
		if c.Type != "content" || d.content != nil {
			p.errorf(c.DefRange(), "Unsupported block type", "A dynamic block has exactly one content block.")
			continue
		}
		d.content = c.Body
	}
	if d.forEach == nil || d.content == nil {
		p.errorf(blk.DefRange(), "Incomplete dynamic block", "A dynamic block needs for_each and a content block.")
	}
	return d, len(p.diags) == before
}

func (p *parser) dynamicLabels(a *hclsyntax.Attribute, sc *scope) ([]string, bool) {
	if a == nil {
		return nil, true
	}
	v, ok := p.eval(a.Expr, sc)
	if !ok {
		return nil, false
	}
	var labels []string
	if !p.assignValue(reflect.ValueOf(&labels).Elem(), v, a) {
		return nil, false
	}
	return labels, true
}

// sortedAttributes returns the attributes of a body in source order.
func sortedAttributes(body *hclsyntax.Body) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(body.Attributes), func(a, b *hclsyntax.Attribute) int {
		return cmp.Compare(a.SrcRange.Start.Byte, b.SrcRange.Start.Byte)
	})
}

// describe returns the name of an attribute's type for an error.
func describe(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return describe(t.Elem())
	case t == durationType:
		return `a duration such as "30s"`
	case t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "a boolean"
	case t.Kind() == reflect.Slice:
		_, elem, _ := strings.Cut(describe(t.Elem()), " ") // without the article
		return "a list of " + elem + "s"
	case t.Kind() == reflect.Map:
		return "a map"
	}
	return "an integer"
}
