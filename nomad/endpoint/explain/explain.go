package explain

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"

	memdb "github.com/hashicorp/go-memdb"

	"github.com/open-nomad/open-nomad/acl"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/authz"
	"github.com/open-nomad/open-nomad/nomad/endpoint/handler"
	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/nomad/rpc"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// Limits of a response of ACL.Explain: the subjects on one page, and the subjects examined
// for it.
const (
	defaultPage = 100
	maxPage     = 1000
	maxSubjects = 10_000
)

// subject is a subject whose rights are explained.
type subject struct {
	message.ACLSubject
	rights   func(*authz.Rights) (*acl.ACL, error)
	workload *acl.Workload
	over     bool // its token has expired
}

// Explain reports whether a subject may do something and why. Callers may ask about
// themselves. Other subjects require a management token.
func (s *Service) Explain(ctx context.Context, c *rpc.Call, req *message.ACLExplainRequest) (*message.ACLExplainResponse, error) {
	others, err := ofOthers(c, req)
	switch {
	case err != nil:
		return nil, err
	case others:
		if err := c.Access.NeedManagement(); err != nil {
			return nil, err
		}
	}
	c.Access.MarkChecked()
	opts := req.QueryOptions
	opts.MinQueryIndex = 0 // the response does not depend on one table, so it never blocks
	return handler.Read(ctx, s.Core, &opts, func(snap *state.Snapshot, _ memdb.WatchSet, out *message.ACLExplainResponse) error {
		ask, err := s.parse(snap, c, req)
		if err != nil {
			return err
		}
		out.Index = snap.TableIndex(state.TableACLPolicy, state.TableACLToken, state.TableACLRoles)
		out.Needs, out.Depends, out.Identities = ask.needs(), ask.depends, ask.identities
		if !others {
			out.Answers = []*message.ACLExplanation{ask.decide(self(c), c.Access.Rights)}
			return nil
		}
		rights := authz.RightsIn(snap)
		if req.Everybody {
			out.Answers, out.NextToken = s.allowed(ask, rights, s.everybody(snap, ask), req)
			return nil
		}
		who, err := s.subjectOf(snap, req)
		if err != nil {
			return err
		}
		out.Answers = []*message.ACLExplanation{ask.explain(who, rights)}
		return nil
	})
}

// ofOthers reports whether a request is about a subject other than the caller.
func ofOthers(c *rpc.Call, req *message.ACLExplainRequest) (bool, error) {
	named := 0
	for _, is := range []bool{req.AccessorID != "", req.Role != "", req.Policy != "", req.Workload != nil, req.Everybody} {
		if is {
			named++
		}
	}
	if named > 1 {
		return false, apierror.Errorf(http.StatusBadRequest, "specify one token, role, policy or workload, or everybody")
	}
	own := req.AccessorID != "" && c.Identity.ACLToken != nil && c.Identity.ACLToken.AccessorID == req.AccessorID
	return named == 1 && !own, nil
}

// explain decides the request with the rights of a subject.
func (a *question) explain(who subject, rights *authz.Rights) *message.ACLExplanation {
	has, err := who.rights(rights)
	switch {
	case who.over:
		return refused(who, "token", apierror.ErrTokenExpired.Error())
	case err != nil:
		return refused(who, "policies", err.Error())
	}
	return a.decide(who, has)
}

func refused(who subject, question, reason string) *message.ACLExplanation {
	return &message.ACLExplanation{Subject: who.ACLSubject, Decisions: []*message.ACLDecision{{Question: question, Reason: reason}}}
}

// decide evaluates the questions in order and stops at the first that is denied. Rights that
// only the call itself can check are allowed to management tokens only.
func (a *question) decide(who subject, rights *acl.ACL) *message.ACLExplanation {
	out := &message.ACLExplanation{Subject: who.ACLSubject, Allowed: true}
	tell := func(d *message.ACLDecision) bool {
		out.Decisions, out.Allowed = append(out.Decisions, d), d.Allowed
		return d.Allowed
	}
	if a.audience != "" && who.workload != nil {
		which := a.mints(who.workload)
		tell(&message.ACLDecision{Question: fmt.Sprintf("an identity with audience %q", a.audience), Allowed: which != "",
			Reason: cmp.Or(which, "the workload has no identity with this audience")})
		return out
	}
	if a.management || a.depends != "" {
		d := &message.ACLDecision{Question: cmp.Or(a.depends, "a management token"), Allowed: rights.IsManagement(),
			Reason: string(acl.ReasonManagement)}
		switch {
		case d.Allowed:
		case a.management:
			d.Reason = "not a management token"
		default:
			d.Reason = "the required right depends on the call: ask about a right on an object instead"
		}
		if !tell(d) {
			return out
		}
	}
	for _, q := range a.questions {
		q.Workload = who.workload
		if !tell(decision(rights.Explain(q))) {
			break
		}
	}
	return out
}

func decision(d acl.Decision) *message.ACLDecision {
	out := &message.ACLDecision{Question: d.Question.String(), Allowed: d.Allowed, Reason: string(d.Reason)}
	for _, r := range d.Rules {
		out.Rules = append(out.Rules, &message.ACLDecisionRule{Policy: r.Policy, Block: r.Block, Text: r.Text, Line: r.Pos.Line,
			Column: r.Pos.Column})
	}
	return out
}

// allowed returns one page of the subjects that are allowed, and the key of the next page.
// Subjects are in the order of their keys.
func (s *Service) allowed(ask *question, rights *authz.Rights, all iter.Seq2[string, subject],
	req *message.ACLExplainRequest) (out []*message.ACLExplanation, next string) {
	size := int(req.PerPage)
	if size <= 0 || size > maxPage {
		size = defaultPage
	}
	looked := 0
	for key, who := range all {
		if key < req.NextToken || who.over {
			continue
		}
		if looked++; looked > maxSubjects || len(out) == size {
			return out, key
		}
		if e := ask.explain(who, rights); e.Allowed {
			out = append(out, e)
		}
	}
	return out, ""
}
