// Package servertest runs servers for the tests of other packages: of nomad/server, of the endpoints, and of duties.
//
//	s, stop := servertest.Start(t, nil)            // one server in this process
//	g := servertest.StartACL(t, nil)               // with ACLs and a management token
//	all := servertest.Cluster(t, 3, nil)           // three that elected a leader
//	n := servertest.Join(t, s.RPCAddr())           // a node that runs nothing
//	servertest.Register(t, s, servertest.BatchJob("b", 1))
//	a := n.Allocs(1)[0]
//
// Servers listen on free ports, keep their state in memory unless the test sets a directory, and stop with the test.
// Calls are repeated while no leader accepts them (Retry). A test beside an endpoint calls its methods by name, over
// RPC, so that it also tests the rule of the method's row.
package servertest
