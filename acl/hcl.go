package acl

import (
	"github.com/hashicorp/hcl/hcl/scanner"
	"github.com/hashicorp/hcl/hcl/strconv"
	"github.com/hashicorp/hcl/hcl/token"
)

// hclReader parses HCL1. It uses the scanner of the HCL1 library, and implements the part
// of the grammar that policies use. It stops at the first fault.
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

// fail records the first fault. Later ones are consequences of it.
func (r *hclReader) fail(at Pos, format string, args ...any) {
	if len(r.found) == 0 {
		r.found.add(at, format, args...)
	}
}

func (r *hclReader) at() Pos { return r.lines.pos(r.tok.Pos.Offset) }

// next reads the next token. After a fault, it is EOF.
func (r *hclReader) next() {
	r.tok = r.sc.Scan()
	for r.tok.Type == token.COMMENT {
		r.tok = r.sc.Scan()
	}
	if len(r.found) > 0 {
		r.tok.Type = token.EOF
	}
}

// take skips the current token if it has type t, and reports whether it did.
func (r *hclReader) take(t token.Type) bool {
	if r.tok.Type != t {
		return false
	}
	r.next()
	return true
}

// items parses items up to and including the token end.
func (r *hclReader) items(end token.Type, depth int) []item {
	var items []item
	if depth > maxDepth {
		r.fail(r.at(), "the policy is nested too deep")
	}
	for r.tok.Type != end && len(r.found) == 0 {
		items = append(items, r.item(depth))
		r.take(token.COMMA)
	}
	r.take(end)
	return items
}

// item parses a key with its value, or a block with its labels.
func (r *hclReader) item(depth int) item {
	it := item{at: r.at()}
	switch r.tok.Type {
	case token.IDENT:
		it.key = r.tok.Text
	case token.STRING:
		it.key = r.unquoted()
	case token.EOF:
		r.fail(it.at, "unexpected end of the policy: missing }")
	default:
		r.fail(it.at, "expected a key or a block, not %s", shown(r.tok.Text))
	}
	r.next()
	for r.tok.Type == token.STRING || r.tok.Type == token.IDENT {
		name := label{at: r.at(), text: r.tok.Text}
		if r.tok.Type == token.STRING {
			name.text = r.unquoted()
		} else {
			r.fail(name.at, "expected = or {, not %s; a name must be in quotes", shown(r.tok.Text))
		}
		it.labels = append(it.labels, name)
		r.next()
	}
	if r.tok.Type != token.LBRACE && !r.take(token.ASSIGN) {
		r.fail(r.at(), "expected = or { after %s", shown(it.key))
		return it
	}
	it.value = r.value(depth)
	return it
}

// value parses the value of a key.
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
		r.fail(v.at, "a string must be in quotes here")
	default:
		r.fail(v.at, "expected a string, a list or a block")
	}
	return v
}

// values parses the remaining elements of a list.
func (r *hclReader) values(depth int) []value {
	var values []value
	if depth > maxDepth {
		r.fail(r.at(), "the policy is nested too deep")
	}
	for r.tok.Type != token.RBRACK && len(r.found) == 0 {
		values = append(values, r.value(depth))
		if !r.take(token.COMMA) && r.tok.Type != token.RBRACK {
			r.fail(r.at(), "expected a comma or ] in the list")
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
