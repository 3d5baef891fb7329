package acl

import (
	"github.com/hashicorp/hcl/hcl/scanner"
	"github.com/hashicorp/hcl/hcl/strconv"
	"github.com/hashicorp/hcl/hcl/token"
)

// hclReader reads the first version of HCL: its words come from the scanner of that
// language, and the grammar is the part of it that a policy can need. The first thing
// that is wrong ends the reading.
type hclReader struct {
	sc    *scanner.Scanner
	lines lines
	tok   token.Token
	found faults
}

func readHCL(src string, lines lines) ([]item, error) {
	r := &hclReader{sc: scanner.New([]byte(src)), lines: lines}
	r.sc.Error = func(at token.Pos, msg string) { r.fail(r.lines.pos(min(at.Offset, len(src))), "%s", msg) }
	r.next()
	items := r.items(token.EOF, 0)
	return items, r.found.err()
}

// fail keeps the first fault: what follows from it tells nothing.
func (r *hclReader) fail(at Pos, format string, args ...any) {
	if len(r.found) == 0 {
		r.found.add(at, format, args...)
	}
}

func (r *hclReader) at() Pos { return r.lines.pos(r.tok.Pos.Offset) }

// next goes to the next word; past a fault the text is at its end.
func (r *hclReader) next() {
	r.tok = r.sc.Scan()
	for r.tok.Type == token.COMMENT {
		r.tok = r.sc.Scan()
	}
	if len(r.found) > 0 {
		r.tok.Type = token.EOF
	}
}

// take goes on when the word is of the type.
func (r *hclReader) take(t token.Type) bool {
	if r.tok.Type != t {
		return false
	}
	r.next()
	return true
}

// items reads until end, which it takes.
func (r *hclReader) items(end token.Type, depth int) []item {
	var items []item
	if depth > maxDepth {
		r.fail(r.at(), "nested too deep for a policy")
	}
	for r.tok.Type != end && len(r.found) == 0 {
		items = append(items, r.item(depth))
		r.take(token.COMMA)
	}
	r.take(end)
	return items
}

// item reads a key with its value, or a block with its labels.
func (r *hclReader) item(depth int) item {
	it := item{at: r.at()}
	switch r.tok.Type {
	case token.IDENT:
		it.key = r.tok.Text
	case token.STRING:
		it.key = r.unquoted()
	case token.EOF:
		r.fail(it.at, "the text ends within a block: a } is missing")
	default:
		r.fail(it.at, "the name of a key or a block is expected, not %s", shown(r.tok.Text))
	}
	r.next()
	for r.tok.Type == token.STRING || r.tok.Type == token.IDENT {
		name := label{at: r.at(), text: r.tok.Text}
		if r.tok.Type == token.STRING {
			name.text = r.unquoted()
		} else {
			r.fail(name.at, "= or { is expected, not %s; names are written in quotes", shown(r.tok.Text))
		}
		it.labels = append(it.labels, name)
		r.next()
	}
	if r.tok.Type != token.LBRACE && !r.take(token.ASSIGN) {
		r.fail(r.at(), "= or { is expected after %s", shown(it.key))
		return it
	}
	it.value = r.value(depth)
	return it
}

// value reads what stands behind a key.
func (r *hclReader) value(depth int) value {
	v := value{at: r.at()}
	switch r.tok.Type {
	case token.STRING:
		v.shape, v.text = text, r.unquoted()
		r.next()
	case token.LBRACE:
		v.shape = object
		r.next()
		v.items = r.items(token.RBRACE, depth+1)
	case token.LBRACK:
		v.shape = list
		r.next()
		v.list = r.values(depth + 1)
	case token.NUMBER, token.FLOAT, token.BOOL:
		v.shape, v.text = other, r.tok.Text
		r.next()
	case token.HEREDOC:
		r.fail(v.at, "a string is written in quotes here")
	default:
		r.fail(v.at, "a string, a list or a block is expected")
	}
	return v
}

// values reads the rest of a list.
func (r *hclReader) values(depth int) []value {
	var values []value
	if depth > maxDepth {
		r.fail(r.at(), "nested too deep for a policy")
	}
	for r.tok.Type != token.RBRACK && len(r.found) == 0 {
		values = append(values, r.value(depth))
		if !r.take(token.COMMA) && r.tok.Type != token.RBRACK {
			r.fail(r.at(), "a comma or ] is expected in the list")
		}
	}
	r.take(token.RBRACK)
	return values
}

func (r *hclReader) unquoted() string {
	s, err := strconv.Unquote(r.tok.Text)
	if err != nil {
		r.fail(r.at(), "%s is not a string in quotes", shown(r.tok.Text))
	}
	return s
}
