package login

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-bexpr/grammar"
)

// Bounds of a selector: its text, and the steps of the parser.
const (
	maxSelector = 8 << 10
	maxSteps    = 200_000
)

var errNotAClaim = errors.New("a selector names claims as value.<name> or list.<name>")

// Selector says whom a binding rule is for.
type Selector struct {
	eval  *bexpr.Evaluator // nil: everybody
	names [][]string       // the paths of the claims that it names
}

// selectable is what selectors see.
type selectable struct {
	Value map[string]string   `bexpr:"value"`
	List  map[string][]string `bexpr:"list"`
}

// ParseSelector reads a selector: an expression over value.<name> and list.<name>. An empty
// one is for everybody who has a good token.
func ParseSelector(text string) (*Selector, error) {
	if text == "" {
		return &Selector{}, nil
	}
	if len(text) > maxSelector {
		return nil, fmt.Errorf("selector is longer than %d", maxSelector)
	}
	ast, err := grammar.Parse("", []byte(text), grammar.MaxExpressions(maxSteps))
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	eval, err := bexpr.CreateEvaluator(text, bexpr.WithMaxExpressions(maxSteps))
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	root, ok := ast.(grammar.Expression)
	if !ok {
		return nil, fmt.Errorf("selector: parsed to a %T", ast)
	}
	s := &Selector{eval: eval}
	if err := s.collect(root, nil); err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	return s, nil
}

// collect finds the claims that an expression names. bound are the names that stand for
// elements of lists.
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

// name takes note of one claim.
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

// Match says whether claims are those that the selector is for. Whoever lacks one of the
// claims that it names is not: whatever it says of them, and however the parts of it are
// joined. What is missing is returned, as value.<name> or list.<name>.
func (s *Selector) Match(c *Claims) (ok bool, missing string) {
	if s.eval == nil {
		return true, ""
	}
	for _, path := range s.names {
		if !c.has(path) {
			return false, path[0] + "." + path[1]
		}
	}
	ok, err := s.eval.Evaluate(selectable{Value: c.Values, List: c.Lists})
	return ok && err == nil, ""
}

// has says whether there is what a path names.
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
