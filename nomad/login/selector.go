package login

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-bexpr/grammar"

	"github.com/open-nomad/open-nomad/internal/untrusted"
)

var errNotAClaim = errors.New("claims in a selector must have the form value.<name> or list.<name>")

// Selector is the condition of a binding rule. It is not safe for concurrent use.
type Selector struct {
	eval  *untrusted.Filter // nil matches everything
	names [][]string        // the paths of the claims in the expression
}

// selectable is the data that selectors are evaluated on.
type selectable struct {
	Value map[string]string   `bexpr:"value"`
	List  map[string][]string `bexpr:"list"`
}

// ParseSelector parses a selector, which is an expression over value.<name> and list.<name>. An
// empty selector matches every valid token.
func ParseSelector(text string) (*Selector, error) {
	if text == "" {
		return &Selector{}, nil
	}
	eval, err := untrusted.ParseFilter(text)
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	s := &Selector{eval: eval}
	if err := s.collect(eval.Root(), nil); err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	return s, nil
}

// collect finds the claims in an expression. bound holds the variables that stand for list
// elements.
func (s *Selector) collect(e grammar.Expression, bound []string) error {
	switch e := e.(type) {
	case *grammar.UnaryExpression:
		return s.collect(e.Operand, bound)
	case *grammar.BinaryExpression:
		if err := s.collect(e.Left, bound); err != nil {
			return err
		}
		return s.collect(e.Right, bound)
	case *grammar.MatchExpression:
		return s.name(e.Selector.Path, bound)
	case *grammar.CollectionExpression:
		if err := s.name(e.Selector.Path, bound); err != nil {
			return err
		}
		b := e.NameBinding
		return s.collect(e.Inner, append(slices.Clone(bound), b.Default, b.Index, b.Value))
	}
	return fmt.Errorf("an expression of type %T", e)
}

// name records one claim.
func (s *Selector) name(path, bound []string) error {
	if len(path) == 1 && path[0] != "" && slices.Contains(bound, path[0]) {
		return nil
	}
	fits := len(path) == 2 && (path[0] == "value" || path[0] == "list") || len(path) == 3 && path[0] == "list"
	if !fits || slices.Contains(bound, path[0]) {
		return errNotAClaim
	}
	s.names = append(s.names, path)
	return nil
}

// Match reports whether the selector matches the claims. If a claim in the expression is
// absent, the selector never matches, even in a negation or an alternative. missing is that
// claim, as value.<name> or list.<name>.
func (s *Selector) Match(c *Claims) (ok bool, missing string) {
	if s.eval == nil {
		return true, ""
	}
	for _, path := range s.names {
		if !c.has(path) {
			return false, path[0] + "." + path[1]
		}
	}
	ok, err := s.eval.Match(selectable{Value: c.Values, List: c.Lists})
	return ok && err == nil, ""
}

// has reports whether the claim at a path exists.
func (c *Claims) has(path []string) bool {
	if path[0] == "value" {
		_, ok := c.Values[path[1]]
		return ok
	}
	list, ok := c.Lists[path[1]]
	if ok && len(path) == 3 {
		_, ok = element(path[2], len(list))
	}
	return ok
}
