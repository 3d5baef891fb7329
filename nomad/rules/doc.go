// Package rules checks objects before they are stored: namespaces and the jobs in them, quotas, host volumes, service
// registrations, the objects of access control and the configuration of autopilot. The rules of jobs are in package
// jobrules.
//
// A rule is a function of the object, named for its kind. It returns the first fault with its remedy. The rules read
// no state and change no object, except HostVolumeUpdate. Rules that need other objects are in the endpoint of the kind.
package rules
