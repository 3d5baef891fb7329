package decode

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/hcl/ast"
	"github.com/hashicorp/hcl/hcl/parser"
	"github.com/hashicorp/hcl/hcl/strconv"
	"github.com/hashicorp/hcl/hcl/token"
)

// Agent files use HCL version 1: quoted keys, several keys on a line,
// and blocks with or without "=".

// hclFault maps parts of the parser's messages to clearer texts.
var hclFault = []struct{ has, text string }{
	{"Unknown token", `expected a value: a string in quotes, a number, true, false, a list or a block`},
	{"closing RBRACE", `missing "}": a block is not closed`},
	{"EOF", `the file ends in the middle of a value or a block`},
	{"unexpected token while parsing list", `a list is not closed, or contains something other than values: missing "," or "]"`},
	{"parsing list", `expected "," or "]" in a list`},
	{"got: LBRACE", `expected a key before "{"`},
	{"nested object expected", `a key with labels is a block: expected "{", not "="`},
	{"IDENT | STRING", `expected a key`},
	{"no object keys", `expected a key before "="`},
	{"expected start of object", `expected "=" or "{" after a key`},
	{"illegal character", "unexpected character"},
	{"not terminated", "a string or comment is not closed"},
}

// parseHCL parses an HCL file. The parser stops at the first error.
func parseHCL(src []byte, file string) (value, []fault) {
	tree, err := parser.Parse(src)
	if err != nil {
		return value{}, []fault{syntaxFault(err, file)}
	}
	r := hclReader{file: file}
	root, ok := tree.Node.(*ast.ObjectList)
	if !ok {
		return value{}, []fault{{Place{file, 1, 1}, "expected keys and blocks"}}
	}
	v := r.object(root, Place{file, 1, 1})
	return v, r.faults
}

func syntaxFault(err error, file string) fault {
	f := fault{at: Place{file, 1, 1}, text: "invalid HCL"}
	if at := (*parser.PosError)(nil); errors.As(err, &at) {
		f.at.Line, f.at.Column = at.Pos.Line, at.Pos.Column
	}
	for _, known := range hclFault {
		if strings.Contains(err.Error(), known.has) {
			f.text = known.text
			break
		}
	}
	return f
}

// hclReader converts the syntax tree of the parser to values.
type hclReader struct {
	file   string
	faults []fault
}

func (r *hclReader) place(p token.Pos) Place { return Place{r.file, p.Line, p.Column} }

func (r *hclReader) report(at token.Pos, text string) {
	r.faults = append(r.faults, fault{r.place(at), text})
}

func (r *hclReader) object(list *ast.ObjectList, at Place) value {
	v := value{at: at, kind: object}
	for _, item := range list.Items {
		if len(item.Keys) == 0 {
			r.report(item.Pos(), "expected a key")
			continue
		}
		inner := r.value(item.Val)
		for i := len(item.Keys) - 1; i > 0; i-- { // labels
			key := item.Keys[i].Token
			inner = value{at: r.place(key.Pos), kind: object, entries: []entry{{r.key(key), r.place(key.Pos), inner}}}
		}
		key := item.Keys[0].Token
		v.entries = append(v.entries, entry{r.key(key), r.place(key.Pos), inner})
	}
	return v
}

func (r *hclReader) key(t token.Token) string {
	if t.Type == token.STRING {
		return r.unquote(t)
	}
	return t.Text
}

func (r *hclReader) value(node ast.Node) value {
	switch n := node.(type) {
	case *ast.ObjectType:
		return r.object(n.List, r.place(n.Pos()))
	case *ast.ListType:
		v := value{at: r.place(n.Pos()), kind: array}
		for _, e := range n.List {
			v.list = append(v.list, r.value(e))
		}
		return v
	case *ast.LiteralType:
		v := value{at: r.place(n.Pos()), kind: scalar, text: n.Token.Text, bare: true}
		switch n.Token.Type {
		case token.STRING:
			v.text, v.bare = r.unquote(n.Token), false
		case token.HEREDOC:
			v.text, v.bare = r.heredoc(n.Token), false
		}
		return v
	}
	return value{kind: null}
}

func (r *hclReader) unquote(t token.Token) string {
	text, err := strconv.Unquote(t.Text)
	if err != nil {
		r.report(t.Pos, `malformed string: write \ as \\`)
	}
	return text
}

// heredoc returns the text of a heredoc without its markers.
func (r *hclReader) heredoc(t token.Token) string {
	if !strings.Contains(t.Text, "\n") {
		r.report(t.Pos, "malformed heredoc")
		return ""
	}
	text, _ := t.Value().(string)
	return text
}
