package secret

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// variable reads the items of a variable with the identity of the task.
func (n *Node) variable(ctx context.Context, t *Task, s *nomad.Secret) (map[string]string, error) {
	ns := cmp.Or(s.ConfigText(nomad.SecretConfigNamespace), t.Namespace)
	name := fmt.Sprintf("nomad.var.block(%s@%s.%s)", s.Path, ns, n.Region)
	req := message.VariablesReadRequest{Path: s.Path,
		QueryOptions: message.QueryOptions{Region: n.Region, Namespace: ns, AuthToken: t.Identity()}}
	var resp message.VariablesReadResponse
	err := n.RPC.Call(ctx, "Variables.Read", &req, &resp)
	switch {
	case errors.Is(err, apierror.ErrPermissionDenied):
		return nil, fmt.Errorf("cannot read %s: the identity of the task has no right to read the variable: allow it with an ACL policy of "+
			"the job", name)
	case err != nil && apierror.HTTPStatus(err) == 404:
		return nil, &missing{name}
	case err != nil:
		return nil, fmt.Errorf("cannot read %s: the servers do not answer, or with an error (status %d)", name, apierror.HTTPStatus(err))
	case resp.Data == nil:
		return nil, &missing{name}
	}
	return resp.Data.Items, nil
}
