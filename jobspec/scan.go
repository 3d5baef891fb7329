package jobspec

import (
	"bytes"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits on the structure of a file. The parser recurses for each level and each
// operator, and a stack overflow cannot be recovered.
const (
	maxDepth     = 250
	maxOperators = 5000
	maxNumber    = 64
)

// parsable reports whether the HCL source is small and shallow enough for the parser. If
// not, the fault is recorded.
func (p *parser) parsable(name string, src []byte) bool {
	if len(src) > maxHCL {
		p.errorf(hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.InitialPos}, "Too much HCL",
			"It has %d bytes, and at most %d are allowed: keep large texts elsewhere, for example in an artifact.", len(src), maxHCL)
		return false
	}
	return p.shallow(name, src)
}

// shallow reports whether the source is safe to parse: its nesting and its operators are
// within the bounds. If not, the fault is recorded.
func (p *parser) shallow(name string, src []byte) bool {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos) // the parser reports the errors
	diags := scan(tokens)
	p.report(diags)
	return !diags.HasErrors()
}

// scan returns the first fault: nesting too deep, too many operators, or a number that
// is too large.
func scan(tokens hclsyntax.Tokens) hcl.Diagnostics {
	depth, operators := 0, 0
	var last hclsyntax.TokenType
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOParen, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc, hclsyntax.TokenTemplateInterp:
			depth++
		case hclsyntax.TokenTemplateControl:
			depth++
			operators++
		case hclsyntax.TokenOBrack:
			depth++
			if last == hclsyntax.TokenCBrack || last == hclsyntax.TokenCParen {
				operators++
			}
		case hclsyntax.TokenCBrace, hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenCQuote,
			hclsyntax.TokenCHeredoc, hclsyntax.TokenTemplateSeqEnd:
			depth--
		case hclsyntax.TokenQuestion, hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent, hclsyntax.TokenBang, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenEqualOp,
			hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
			operators++
		case hclsyntax.TokenNumberLit:
			if len(t.Bytes) > maxNumber || hugeExponent(t.Bytes) {
				return refuse(t.Range, "Number too large", "Numbers have at most 64 digits and an exponent below 1000.")
			}
		}
		last = t.Type
		if depth > maxDepth {
			return refuse(t.Range, "Nested too deep", fmt.Sprintf("Blocks, lists and expressions can nest at most %d levels deep.", maxDepth))
		}
		if operators > maxOperators {
			return refuse(t.Range, "Too many operators", fmt.Sprintf("A file can have at most %d operators.", maxOperators))
		}
	}
	return nil
}

// hugeExponent reports whether a number has an exponent of four or more digits.
func hugeExponent(number []byte) bool {
	i := bytes.IndexAny(number, "eE")
	return i >= 0 && len(bytes.TrimLeft(number[i+1:], "+-0")) > 3
}

func refuse(at hcl.Range, summary, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &at}}
}
