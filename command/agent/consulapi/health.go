package consulapi

import (
	"net/http"
	"slices"

	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/catalog"
)

// healthService returns the instances of a service with their nodes and checks.
func healthService(c *call) (*answer, error) {
	list, err := c.instances(scope{service: c.Param})
	if err != nil {
		return nil, err
	}
	rows := each(c.tagged(list), entryOf)
	if c.passing {
		rows = slices.DeleteFunc(rows, func(e serviceEntry) bool { return worst(e.Checks) != string(catalog.Passing) })
	}
	return filtered(c, rows)
}

// healthChecks returns the checks of a service.
func healthChecks(c *call) (*answer, error) {
	list, err := c.instances(scope{service: c.Param})
	if err != nil {
		return nil, err
	}
	return filtered(c, slices.Concat(each(list, checksOf)...))
}

// healthState returns the checks that have a status: those of services, and those of the nodes for callers that may read
// nodes.
func healthState(c *call) (*answer, error) {
	want := c.Param
	if want != "any" && (severity(want) == 2 && want != string(catalog.Critical)) {
		return nil, apierror.Errorf(http.StatusBadRequest, "%.64q is not a status: use any, passing, warning or critical", want)
	}
	c.opts.MaxQueryTime = min(c.opts.MaxQueryTime, lookAgain)
	list, err := c.instances(scope{})
	if err != nil {
		return nil, err
	}
	rows := []check{}
	nodes, err := c.nodes(c.instant())
	if err != nil && apierror.HTTPStatus(err) != http.StatusForbidden {
		return nil, err
	}
	for _, n := range nodes {
		rows = append(rows, nodeCheck(nameOf(n.Name, n.ID), n.Status))
	}
	rows = slices.Concat(append([][]check{rows}, each(list, checksOf)...)...)
	if want != "any" {
		rows = slices.DeleteFunc(rows, func(row check) bool { return row.Status != want })
	}
	return filtered(c, rows)
}

// healthNode returns the checks of a node and of its services, an empty list if it does not exist.
func healthNode(c *call) (*answer, error) {
	stub, list, err := c.instancesOfNode()
	if err != nil || stub == nil {
		return &answer{body: []check{}}, err
	}
	rows := []check{nodeCheck(nameOf(stub.Name, stub.ID), stub.Status)}
	return filtered(c, slices.Concat(append([][]check{rows}, each(list, checksOf)...)...))
}
