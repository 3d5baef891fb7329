package jobspec

import "github.com/hashicorp/hcl/v2/hclwrite"

// Format returns the text of an HCL file in the canonical style. Invalid HCL is an *Error.
func Format(name string, src []byte) ([]byte, error) {
	p := &parser{sources: map[string][]byte{name: src}}
	if body := p.syntax(name, src); body == nil {
		return nil, p.err()
	}
	return hclwrite.Format(src), nil
}
