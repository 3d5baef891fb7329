package render

import (
	"fmt"
	"strings"
	"text/template/parse"
)

// scan looks for refused functions in a parse tree.
type scan struct {
	tree    *parse.Tree
	refused map[string]string // with the reasons
}

func (s *scan) list(l *parse.ListNode) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := s.node(n); err != nil {
			return err
		}
	}
	return nil
}

func (s *scan) node(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ActionNode:
		return s.pipe(n.Pipe)
	case *parse.TemplateNode:
		return s.pipe(n.Pipe)
	case *parse.IfNode:
		return s.branch(&n.BranchNode)
	case *parse.RangeNode:
		return s.branch(&n.BranchNode)
	case *parse.WithNode:
		return s.branch(&n.BranchNode)
	case *parse.PipeNode:
		return s.pipe(n)
	case *parse.ChainNode:
		return s.node(n.Node)
	case *parse.IdentifierNode:
		return s.call(n)
	}
	return nil
}

func (s *scan) branch(b *parse.BranchNode) error {
	if err := s.pipe(b.Pipe); err != nil {
		return err
	}
	if err := s.list(b.List); err != nil {
		return err
	}
	return s.list(b.ElseList)
}

func (s *scan) pipe(p *parse.PipeNode) error {
	if p == nil {
		return nil
	}
	for _, cmd := range p.Cmds {
		for _, arg := range cmd.Args {
			if err := s.node(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scan) call(id *parse.IdentifierNode) error {
	why, bad := s.refused[id.Ident]
	if !bad {
		return nil
	}
	place, _ := s.tree.ErrorContext(id)
	line := strings.SplitN(strings.TrimPrefix(place, s.tree.ParseName+":"), ":", 2)[0]
	return fmt.Errorf("line %s: the function %s is refused: %s", line, id.Ident, why)
}
