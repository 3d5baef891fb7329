package acl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Policy is a parsed policy. Parse creates it. Only its name can be changed.
type Policy struct {
	// Name is the name of the policy, for Explain. It is not part of the text.
	Name   string
	blocks []block
}

// block is a block of a policy or a path of variables: it adds grants to one rule.
type block struct {
	kind   Kind
	space  string // the namespace of variables
	name   string
	at     Pos
	grants []grant
}

// grant is the policy value or one capability of a block, with the rights that it implies.
type grant struct {
	text   string // the value as written in the policy
	word   string
	short  bool // it is the value of the policy key
	at     Pos
	rights rights
	deny   bool
}

// Parse parses a policy in HCL or JSON. The error is an *Error that lists all faults with
// their positions.
func Parse(src string) (*Policy, error) {
	items, isJSON, err := read(src)
	if err != nil {
		return nil, err
	}
	c := checker{json: isJSON, seen: map[string]Pos{}}
	for _, it := range items {
		c.top(it)
	}
	if len(items) == 0 {
		c.found.add(Pos{1, 1}, "the policy is empty: it requires at least one block, such as %s", example)
	}
	if err := c.found.err(); err != nil {
		return nil, err
	}
	return &Policy{blocks: c.blocks}, nil
}

// checker converts items to blocks and validates them.
type checker struct {
	json   bool
	blocks []block
	seen   map[string]Pos
	found  faults
}

// topKinds lists the names of top-level blocks.
var topKinds = func() []string {
	var names []string
	for _, kind := range slices.Sorted(maps.Keys(vocabularies)) {
		if kind != Variables {
			names = append(names, string(kind))
		}
	}
	return names
}()

// top checks a top-level block.
func (c *checker) top(it item) {
	if !slices.Contains(topKinds, it.key) {
		c.found.add(it.at, "unknown block %s%s", shown(it.key), c.found.meant(it.key, topKinds))
		return
	}
	words := vocabularies[Kind(it.key)]
	for _, b := range c.bodies(it, words.names != "") {
		b.id, b.title = it.key, it.key
		if words.names != "" {
			b.id, b.title = it.key+idSep+b.name.text, it.key+" "+shown(b.name.text)
			c.name(words, b.name)
		}
		if c.once(b.id, b.title, b.at) {
			c.blocks = append(c.blocks, c.block(words, b))
		}
	}
}

// body is a block with its name.
type body struct {
	name  label
	at    Pos
	items []item
	id    string // unique in the policy
	title string // its name in messages
}

// idSep separates the parts of an id. A valid policy cannot contain it.
const idSep = "\x00"

// bodies returns the bodies of a block. In HCL there is one, in JSON one for each name.
func (c *checker) bodies(it item, named bool) []body {
	values, ok := c.objects(it.value)
	if !ok {
		c.found.add(it.value.at, "%s must be a block, not %s", shown(it.key), it.value.shape)
		return nil
	}
	var bodies []body
	for _, v := range values {
		switch {
		case !named && len(it.labels) > 0:
			c.found.add(it.labels[0].at, "%s must not have a name", it.key)
		case !named:
			bodies = append(bodies, body{at: it.at, items: v.items})
		case c.json:
			bodies = append(bodies, c.namedJSON(it, v)...)
		case len(it.labels) == 0:
			c.found.add(it.at, `a name in quotes is missing: %s "name" { ... }`, it.key)
		case len(it.labels) > 1:
			c.found.add(it.labels[1].at, "%s must have one name, not %d", it.key, len(it.labels))
		default:
			bodies = append(bodies, body{name: it.labels[0], at: it.at, items: v.items})
		}
	}
	return bodies
}

// namedJSON returns the bodies of a JSON object whose keys are names.
func (c *checker) namedJSON(it item, v value) []body {
	var bodies []body
	if len(v.items) == 0 {
		c.found.add(v.at, "%s has no named blocks", shown(it.key))
	}
	for _, named := range v.items {
		values, ok := c.objects(named.value)
		if !ok {
			c.found.add(named.at, `a name is missing: want {"%s": {"name": {...}}}; %s is a key, not a name`, it.key, shown(named.key))
			continue
		}
		for _, inner := range values {
			bodies = append(bodies, body{name: label{named.key, named.at}, at: named.at, items: inner.items})
		}
	}
	return bodies
}

// objects returns the objects of a block. In JSON, it can be a list of objects.
func (c *checker) objects(v value) ([]value, bool) {
	if v.shape == object {
		return []value{v}, true
	}
	if !c.json || v.shape != list || len(v.list) == 0 {
		return nil, false
	}
	for _, e := range v.list {
		if e.shape != object {
			return nil, false
		}
	}
	return v.list, true
}

// once records a fault for a duplicate, and reports whether the key is new.
func (c *checker) once(key, name string, at Pos) bool {
	before, twice := c.seen[key]
	if twice {
		c.found.add(at, "duplicate %s: the first is on line %d", name, before.Line)
		return false
	}
	c.seen[key] = at
	return true
}

func (c *checker) name(words *vocabulary, name label) {
	if words.validName(name.text) {
		return
	}
	what := string(words.kind) + " name"
	if words.kind == Variables {
		what = "variable path"
	}
	extra := strings.Join(strings.Split(words.names, ""), " ")
	c.found.add(name.at, "invalid %s %s: use 1 to %d letters, digits and %s", what, shown(name.text), maxName, extra)
}

// block checks the keys of a block and returns its grants.
func (c *checker) block(words *vocabulary, b body) block {
	made := block{kind: words.kind, name: b.name.text, at: b.at}
	before, keys := len(c.found), words.keys()
	spaces := false
	for _, it := range b.items {
		switch {
		case !slices.Contains(keys, it.key):
			c.found.add(it.at, "%s has no key %s%s", b.title, shown(it.key), c.found.meant(it.key, keys))
		case it.key == "variables":
			spaces = true
			c.variables(b, it)
		case len(it.labels) > 0:
			c.found.add(it.labels[0].at, "%s must not have a name", it.key)
		case !c.once(b.id+idSep+it.key, it.key+" of "+b.title, it.at):
		case it.key == "policy":
			made.grants = append(made.grants, c.policy(words, it)...)
		default:
			made.grants = append(made.grants, c.capabilities(words, it)...)
		}
	}
	if len(made.grants) == 0 && !spaces && len(c.found) == before {
		c.found.add(b.at, "%s is empty: it requires %s; use deny to deny everything", b.title, strings.Join(keys, " or "))
	}
	return made
}

// keys returns the valid keys of a block of the kind.
func (v *vocabulary) keys() []string {
	var keys []string
	if v.short != nil {
		keys = append(keys, "policy")
	}
	if v.capabilities != nil {
		keys = append(keys, "capabilities")
	}
	if v.kind == Namespaces {
		keys = append(keys, "variables")
	}
	return keys
}

// policy checks the policy key and returns its grants.
func (c *checker) policy(words *vocabulary, it item) []grant {
	all := words.policyWords()
	if it.value.shape != text {
		c.found.add(it.value.at, "policy must be one of %s, not %s", strings.Join(all, ", "), it.value.shape)
		return nil
	}
	if !slices.Contains(all, it.value.text) {
		c.found.add(it.value.at, "%s has no policy %s%s", words.kind, shown(it.value.text), c.found.meant(it.value.text, all))
		return nil
	}
	return []grant{{
		text: fmt.Sprintf("policy = %q", it.value.text), word: it.value.text, short: true, at: it.value.at,
		deny: it.value.text == wordDeny, rights: words.granted(it.value.text, true),
	}}
}

// capabilities checks the capabilities key and returns its grants.
func (c *checker) capabilities(words *vocabulary, it item) []grant {
	if it.value.shape != list {
		c.found.add(it.value.at, "capabilities must be a list of strings, not %s", it.value.shape)
		return nil
	}
	if len(it.value.list) == 0 {
		c.found.add(it.value.at, "capabilities is empty: use [\"deny\"] to deny everything")
	}
	all := append([]string{wordDeny}, words.capabilities...)
	var grants []grant
	for _, v := range it.value.list {
		switch {
		case v.shape != text:
			c.found.add(v.at, "a capability must be a string, not %s", v.shape)
		case v.text == wordDeny:
			grants = append(grants, grant{text: `"deny"`, word: v.text, at: v.at, deny: true})
		case !slices.Contains(all, v.text):
			c.found.add(v.at, "%s has no capability %s%s", words.kind, shown(v.text), c.found.meant(v.text, all))
		default:
			grants = append(grants, grant{text: fmt.Sprintf("%q", v.text), word: v.text, at: v.at, rights: words.granted(v.text, false)})
		}
	}
	return grants
}

// variables checks the variables block of a namespace.
func (c *checker) variables(owner body, it item) {
	for _, b := range c.bodies(it, false) {
		b.id, b.title = owner.id+idSep+it.key, it.key+" of "+owner.title
		if !c.once(b.id, b.title, it.at) {
			return
		}
		if len(b.items) == 0 {
			c.found.add(it.at, `%s is empty: it requires path "..." { capabilities = [...] }`, b.title)
		}
		for _, p := range b.items {
			c.path(owner, b, p)
		}
	}
}

// path checks a path block of variables.
func (c *checker) path(owner, vars body, it item) {
	if it.key != "path" {
		c.found.add(it.at, "%s has no key %s%s", vars.title, shown(it.key), c.found.meant(it.key, []string{"path"}))
		return
	}
	for _, b := range c.bodies(it, true) {
		b.id, b.title = vars.id+idSep+b.name.text, fmt.Sprintf("path %s of %s", shown(b.name.text), owner.title)
		c.name(variableWords, b.name)
		if !c.once(b.id, b.title, b.at) {
			continue
		}
		made := c.block(variableWords, b)
		made.space = owner.name.text
		c.blocks = append(c.blocks, made)
	}
}
