// Package untrusted parses text that callers write, within limits. The libraries that it uses have
// either no limits or very high ones: a filter of 400 bytes can cost 60 MB, a regular expression of 3 KB
// more than 100 MB.
//
//	text        constructor             limits
//	filter      ParseFilter, Slots      bytes, parser steps, collections, size of its regular expressions,
//	                                    and the values that its evaluation reads
//	regexp      CompileRegexp           bytes, instructions
//	version     Version, Semver         bytes
//	range       VersionRange            bytes, parts
//	pattern     GlobMatch               none: its time is linear
//
// Cron expressions have the same limits in package internal/cron. Jobspecs are parsed in a process of their
// own. internal/arch refuses a direct use of these parsers elsewhere.
//
// Limits are constants, because the state machine of the servers also evaluates filters. It uses ParseFilter, which
// never waits. Requests use Slots, so that few complex filters are parsed at the same time. A limit that is
// exceeded is an error for the caller. The package never panics on text, and never logs.
package untrusted
