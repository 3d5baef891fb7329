package jobspec

import (
	"bytes"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// The parser needs time quadratic in the pieces of one text: the lines of a
// heredoc, and whatever $ and % cut a string into. So a text of many pieces that
// holds no interpolation is taken out of the source before it is parsed, and put
// back when it is evaluated. Texts with interpolations have a limit.
const (
	longPieces = 256
	maxPieces  = 20000
)

// place is where an expression begins.
type place struct {
	file   string
	offset int
}

// openText is a string or heredoc whose end has not come yet.
type openText struct {
	first  int // index of the opening token
	pieces int
	plain  bool // holds literal pieces only
}

// shorten returns the source with long texts replaced by ones of the same length
// on the same lines, and keeps their values.
func (p *parser) shorten(name string, src []byte, tokens hclsyntax.Tokens) ([]byte, hcl.Diagnostics) {
	out := src
	var stack []openText
	cost := 0
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			// What follows a word or another text is the label of a block.
			label := i > 0 && (tokens[i-1].Type == hclsyntax.TokenIdent || tokens[i-1].Type == hclsyntax.TokenCQuote)
			stack = append(stack, openText{first: i, plain: !label})
			continue
		}
		if len(stack) == 0 {
			continue
		}
		top := &stack[len(stack)-1]
		switch t.Type {
		case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit:
			top.pieces++
		case hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			stack = stack[:len(stack)-1]
			if top.pieces <= longPieces {
				continue
			}
			if !top.plain {
				if cost += top.pieces * top.pieces; cost > maxPieces*maxPieces {
					return nil, refuse(tokens[top.first].Range, "Text too long", "A text with interpolations may have 20000 lines, and $ and % signs count as lines. A text without any may be longer.")
				}
				continue
			}
			if &out[0] == &src[0] {
				out = bytes.Clone(src)
			}
			text := tokens[top.first : i+1]
			p.keep(name, text)
			blank(out[text[0].Range.Start.Byte:t.Range.End.Byte], text[0].Type)
		default:
			top.plain = false
		}
	}
	return out, nil
}

// blank overwrites a text with an empty one that ends at the same place.
func blank(text []byte, open hclsyntax.TokenType) {
	if open == hclsyntax.TokenOQuote {
		for i := 1; i < len(text)-1; i++ {
			text[i] = 'x'
		}
		return
	}
	for i, c := range text {
		if c != '\n' && c != '\r' {
			text[i] = ' '
		}
	}
	copy(text, `""/*`)
	copy(text[len(text)-2:], "*/")
}

// keep stores the value of a text.
func (p *parser) keep(name string, text hclsyntax.Tokens) {
	value := ""
	if open := text[0]; open.Type == hclsyntax.TokenOQuote {
		value = quoted(text[1 : len(text)-1])
	} else {
		pieces, indent := text[1:len(text)-1], 0
		if bytes.HasPrefix(open.Bytes, []byte("<<-")) {
			indent = sharedIndent(pieces)
		}
		value = heredoc(pieces, indent)
	}
	if p.long == nil {
		p.long = map[place]cty.Value{}
	}
	p.long[place{name, text[0].Range.Start.Byte}] = cty.StringVal(value)
}

// quoted resolves the escapes of a string, some pieces at a time.
func quoted(pieces hclsyntax.Tokens) string {
	var out strings.Builder
	for len(pieces) > 0 {
		n := min(len(pieces), longPieces)
		var chunk bytes.Buffer
		chunk.WriteByte('"')
		for _, t := range pieces[:n] {
			chunk.Write(t.Bytes)
		}
		chunk.WriteByte('"')
		pieces = pieces[n:]
		e, diags := hclsyntax.ParseExpression(chunk.Bytes(), "", hcl.InitialPos)
		if diags.HasErrors() {
			// An unknown escape: it stays as it was written.
			out.Write(bytes.Trim(chunk.Bytes(), `"`))
			continue
		}
		if v, _ := e.Value(nil); v.Type() == cty.String && v.IsKnown() && !v.IsNull() {
			out.WriteString(v.AsString())
		}
	}
	return out.String()
}

// heredoc joins the lines of a heredoc without so many characters of indentation.
func heredoc(pieces hclsyntax.Tokens, indent int) string {
	var out strings.Builder
	newLine := true
	for i, t := range pieces {
		text := string(t.Bytes)
		if newLine && !blankLine(pieces[i:]) {
			text = string([]rune(text)[min(indent, len([]rune(text))):])
		}
		newLine = bytes.HasSuffix(t.Bytes, []byte("\n"))
		switch text {
		case "$${":
			text = "${"
		case "%%{":
			text = "%{"
		}
		out.WriteString(text)
	}
	return out.String()
}

// sharedIndent counts the white space that every line but blank ones begins with.
func sharedIndent(pieces hclsyntax.Tokens) int {
	least := -1
	newLine := true
	for i, t := range pieces {
		if newLine && !blankLine(pieces[i:]) {
			text := []rune(string(t.Bytes))
			n := 0
			for n < len(text) && unicode.IsSpace(text[n]) {
				n++
			}
			if least < 0 || n < least {
				least = n
			}
		}
		newLine = bytes.HasSuffix(t.Bytes, []byte("\n"))
	}
	return max(least, 0)
}

// blankLine says whether the line that begins with the first piece is white space.
func blankLine(pieces hclsyntax.Tokens) bool {
	return bytes.HasSuffix(pieces[0].Bytes, []byte("\n")) && len(bytes.TrimSpace(pieces[0].Bytes)) == 0
}
