// app/vendor/preact.js
var n;
var t;
var r;
var u;
var i;
var f;
var o;
var e;
var l;
var c;
var a;
var s;
var h = /* @__PURE__ */ Symbol.for("pv");
var p = {};
var y = [];
var v = /^m(i|n|o|s|text|space)$/;
var w = Array.isArray;
var d = y.slice;
var _ = Object.assign;
function g(n3) {
  n3 && n3.parentNode && n3.remove();
}
function k(n3, t4, r3) {
  var u3, i3, f3, o3 = {}, e3 = arguments.length;
  for (f3 in t4) "key" == f3 ? u3 = t4[f3] : "ref" == f3 && "function" != typeof n3 ? i3 = t4[f3] : o3[f3] = t4[f3];
  return e3 > 2 && (o3.children = e3 > 3 ? d.call(arguments, 2) : r3), m(n3, o3, u3, i3, null);
}
function m(r3, u3, i3, f3, o3) {
  var e3 = { type: r3, props: u3, key: i3, ref: f3, __k: null, __: null, __b: 0, __e: null, __c: null, constructor: h, __v: o3 || ++t, __i: -1, __u: 0 };
  return !o3 && n.vnode && n.vnode(e3), e3;
}
function $(n3) {
  return n3.children;
}
function x(n3, t4) {
  this.props = n3, this.context = t4, this.__g = 0;
}
function S(n3, t4) {
  if (null == t4) return n3.__ && S(n3.__, n3.__i + 1);
  for (var r3; t4 < n3.__k.length; t4++) if ((r3 = n3.__k[t4]) && r3.__e) return r3.__e;
  return "function" != typeof n3.type || n3.props.__P ? null : S(n3);
}
function C(t4) {
  var r3, u3 = t4.__v, i3 = u3.__e, f3 = [], o3 = [], e3 = t4.__P;
  e3 && ((r3 = _({ constructor: h }, u3)).__v = u3.__v + 1, n.vnode && n.vnode(r3), z(e3, r3, u3, t4.__n, e3.namespaceURI, 32 & u3.__u ? [i3] : null, f3, i3 || S(u3), 32 & u3.__u, o3), r3.__v = u3.__v, r3.__.__k[r3.__i] = r3, E(f3, r3, o3), u3.__ = u3.__e = null, r3.__e != i3 && j(r3));
}
function j(n3) {
  if ((n3 = n3.__) && n3.__c && !n3.props.__P) return n3.__e = null, n3.__k.some(function(t4) {
    return t4 && (n3.__e = t4.__e);
  }), j(n3);
}
function L(t4) {
  (8 & t4.__g || (t4.__g |= 8, u.push(t4), f++)) && i == n.debounceRendering || ((i = n.debounceRendering) || queueMicrotask)(H);
}
function H() {
  try {
    for (var n3, t4 = 1; u.length; ) u.length > t4 && u.sort(o), n3 = u.shift(), t4 = u.length, 8 & n3.__g && C(n3);
  } finally {
    (f = u.length) && (i || queueMicrotask)(H);
  }
}
function I(n3, t4, r3, u3, i3, f3, o3, e3, l3, c3, a3) {
  var s3, h3, v3, w3, d3, _3, g3 = u3.__k || y, k3 = t4.length;
  for (l3 = q(r3, t4, g3, l3, k3), s3 = 0; s3 < k3; s3++) null != (v3 = r3.__k[s3]) && (h3 = ~v3.__i && g3[v3.__i] || p, v3.__i = s3, _3 = z(n3, v3, h3, i3, f3, o3, e3, l3, c3, a3), w3 = v3.__e, (h3.ref != v3.ref || 8 & h3.__u) && (h3.ref && G(h3.ref, null, v3, h3), v3.ref && a3.push(v3.ref, v3.__c || w3, v3)), d3 = d3 || w3, 4 & v3.__u ? (l3 = A(v3, l3, n3, !h3.__v), h3.__e && (h3.__e = null)) : "function" == typeof v3.type && void 0 !== _3 ? l3 = _3 : w3 && (l3 = w3.nextSibling), v3.__u &= -21);
  return r3.__e = d3, l3;
}
function q(n3, t4, r3, u3, i3) {
  var f3, o3, e3, l3, c3, a3, s3, p3, y3, v3 = r3.length, d3 = v3, _3 = 0, g3 = 0, k3 = n3.__k = Array(i3);
  for (f3 = 0; f3 < i3; f3++) null != (o3 = t4[f3]) && "boolean" != typeof o3 && "function" != typeof o3 ? ("object" != typeof o3 || o3.constructor === String ? o3 = k3[f3] = m(null, o3) : w(o3) ? o3 = k3[f3] = m($, { children: o3 }) : o3.constructor === h && o3.__b ? o3 = k3[f3] = m(o3.type, o3.props, o3.key, o3.ref, o3.__v) : k3[f3] = o3, l3 = f3 + _3, o3.__ = n3, o3.__b = n3.__b + 1, e3 = null, ~(c3 = o3.__i = P(o3, r3, l3, d3)) && (d3--, (e3 = r3[c3]) && (e3.__u |= 2)), e3 && e3.__v ? (o3.__u |= 16, c3 == l3 - 1 ? _3-- : c3 == l3 + 1 ? _3++ : c3 != l3 && (c3 > l3 ? _3-- : _3++, g3 = 1)) : (~c3 || (i3 > v3 ? _3-- : i3 < v3 && _3++), "function" != typeof o3.type && (o3.__u |= 4))) : k3[f3] = null;
  if (g3) {
    for (a3 = [], s3 = [], f3 = 0; f3 < i3; f3++) if ((o3 = k3[f3]) && 16 & o3.__u) {
      for (_3 = 0, p3 = a3.length; _3 < p3; ) a3[y3 = _3 + p3 >> 1] < o3.__i ? _3 = y3 + 1 : p3 = y3;
      a3[_3] = o3.__i, s3[f3] = _3 + 1;
    }
    for (_3 = a3.length; f3--; ) s3[f3] && (s3[f3] == _3 ? _3-- : k3[f3].__u |= 4);
  }
  if (d3) for (f3 = 0; f3 < v3; f3++) !(e3 = r3[f3]) || 2 & e3.__u || (e3.__e == u3 && (u3 = S(e3)), J(e3, e3));
  return u3;
}
function A(n3, t4, r3, u3) {
  var i3, f3, o3, e3;
  if ("function" == typeof n3.type) {
    if (n3.props.__P) return t4;
    if (i3 = n3.__k) for (f3 = 0; f3 < i3.length; f3++) i3[f3] && (i3[f3].__ = n3, t4 = A(i3[f3], t4, r3, false));
    return t4;
  }
  for (t4 && !t4.parentNode && (t4 = S(n3)) && !t4.parentNode && (t4 = null), o3 = n3.__e, e3 = t4; e3 && 8 == e3.nodeType; ) e3 = e3.nextSibling;
  for (o3 != e3 && (!u3 && r3.moveBefore && o3.parentNode ? r3.moveBefore(o3, t4) : r3.insertBefore(o3, t4 || null)), t4 = o3; (t4 = t4 && t4.nextSibling) && 8 == t4.nodeType && !t4.data.startsWith("$s"); ) ;
  return t4;
}
function P(n3, t4, r3, u3) {
  var i3, f3 = n3.key, o3 = n3.type, e3 = t4[r3], l3 = e3 && !(2 & e3.__u);
  if (null === e3 && null == f3 || l3 && f3 == e3.key && o3 == e3.type) return r3;
  if (u3 > (l3 ? 1 : 0)) {
    for (i3 = r3 - 1; i3 >= 0; i3--) if ((e3 = t4[i3]) && !(2 & e3.__u) && f3 == e3.key && o3 == e3.type) return i3;
    for (i3 = r3 + 1; i3 < t4.length; i3++) if ((e3 = t4[i3]) && !(2 & e3.__u) && f3 == e3.key && o3 == e3.type) return i3;
  }
  return -1;
}
function T(n3, t4, r3) {
  null == r3 && (r3 = ""), "-" == t4[0] ? n3.setProperty(t4, r3) : n3[t4] = r3;
}
function N(n3, t4, r3, u3, i3) {
  var f3, o3;
  if ("style" == t4) if ("string" == typeof r3) n3.style.cssText = r3;
  else {
    if ("string" == typeof u3 && (n3.style.cssText = u3 = ""), u3) for (t4 in u3) r3 && t4 in r3 || T(n3.style, t4);
    if (r3) for (t4 in r3) u3 && r3[t4] == u3[t4] || T(n3.style, t4, r3[t4]);
  }
  else if ("o" == t4[0] && "n" == t4[1]) "function" != typeof r3 && (r3 = null), "function" != typeof u3 && (u3 = null), (n3.__e || (n3.__e = {}))[t4] = r3, r3 && u3 || (o3 = a[t4] || (a[t4] = V(t4)), (n3.__a || (n3.__a = {}))[t4] = c, f3 = t4 != (t4 = t4.replace(l, "$1")), (t4 = t4.slice(2))[0] < "a" && (t4 = t4.toLowerCase()), r3 ? n3.addEventListener(t4, o3, f3) : n3.removeEventListener(t4, o3, f3));
  else {
    if ("http://www.w3.org/2000/svg" == i3) t4 = t4.replace(/xlink(H|:h)/, "h").replace(/sName$/, "s");
    else if ("width" != t4 && "height" != t4 && "href" != t4 && "list" != t4 && "form" != t4 && "tabIndex" != t4 && "download" != t4 && "rowSpan" != t4 && "colSpan" != t4 && "role" != t4 && "popover" != t4 && t4 in n3) try {
      return void (n3[t4] = null == r3 ? "" : r3);
    } catch (n4) {
    }
    if ("function" == typeof r3) return;
    null == r3 || false === r3 && "-" != t4[4] ? n3.removeAttribute(t4) : n3.setAttribute(t4, "popover" == t4 && 1 == r3 ? "" : r3);
  }
}
function V(t4) {
  return function(r3) {
    var u3 = this.__e;
    if (u3) {
      if (u3 = u3[t4], null == r3[e]) r3[e] = c++;
      else if (r3[e] < this.__a[t4]) return;
      return u3(n.event ? n.event(r3) : r3);
    }
  };
}
function z(t4, r3, u3, i3, f3, o3, e3, l3, c3, a3) {
  var s3, p3, v3, d3, k3, b2, m3, M, C3, j2, L2, H2, q2, A3, O2, P3, T3, N2, V2 = r3.type;
  if (r3.constructor !== h) return null;
  128 & u3.__u && (c3 = 32 & u3.__u, s3 = u3.__c.__z) && (r3.__u |= c3, p3 = o3 = [], 8 == s3.nodeType ? l3 = B(s3, o3) : o3.push(s3), l3 = o3[0] || l3), (s3 = n.__b) && s3(r3);
  n: if ("function" == typeof V2) {
    v3 = e3.length;
    try {
      if (M = r3.props, C3 = (s3 = V2.prototype) && s3.render, j2 = (s3 = V2.contextType) && i3[s3.__c], L2 = s3 ? j2 ? j2.props.value : s3.__ : i3, (d3 = u3.__c) ? (r3.__c = d3, 2 & d3.__g && (d3.__g |= 1)) : (C3 ? r3.__c = d3 = new V2(M, L2) : (r3.__c = d3 = new x(M, L2), d3.constructor = V2, d3.render = K), j2 && j2.sub(d3), d3.state || (d3.state = {}), d3.__n = i3, d3.__g |= 8, d3.__h = [], d3.__k = []), C3 && (d3.__s || (d3.__s = d3.state), V2.getDerivedStateFromProps && (d3.__s == d3.state && (d3.__s = _({}, d3.__s)), _(d3.__s, V2.getDerivedStateFromProps(M, d3.__s)))), k3 = d3.props, b2 = d3.state, d3.__v = r3, u3.__c) {
        if (M !== k3 && C3 && !V2.getDerivedStateFromProps && d3.componentWillReceiveProps && d3.componentWillReceiveProps(M, L2), r3.__v == u3.__v && !(8 & d3.__g) || !(4 & d3.__g) && d3.shouldComponentUpdate && false === d3.shouldComponentUpdate(M, d3.__s, L2)) {
          r3.__v != u3.__v && (d3.props = M, d3.state = d3.__s, d3.__g &= -9), r3.__e = u3.__e, r3.__k = u3.__k, r3.__k.some(function(n3) {
            n3 && (n3.__ = r3);
          }), y.push.apply(d3.__h, d3.__k), d3.__k = [], d3.__h.length && e3.push(d3), l3 = S(u3);
          break n;
        }
        d3.componentWillUpdate && d3.componentWillUpdate(M, d3.__s, L2), C3 && d3.componentDidUpdate && d3.__h.push(function() {
          d3.componentDidUpdate(k3, b2, m3);
        });
      } else C3 && !V2.getDerivedStateFromProps && d3.componentWillMount && d3.componentWillMount(), C3 && d3.componentDidMount && d3.__h.push(d3.componentDidMount);
      d3.context = L2, d3.props = M, d3.__P = t4, d3.__g &= -5, H2 = n.__r, q2 = C3 ? 25 : 0;
      do {
        d3.__g &= -9, H2 && H2(r3), s3 = d3.render(d3.props, d3.state = d3.__s, d3.context);
      } while (8 & d3.__g && ++q2 < 25);
      C3 && (y.push.apply(d3.__h, d3.__k), d3.__k = []), d3.state = d3.__s, d3.getChildContext && (i3 = _({}, i3, d3.getChildContext())), C3 && u3.__c && d3.getSnapshotBeforeUpdate && (m3 = d3.getSnapshotBeforeUpdate(k3, b2)), A3 = s3 && s3.type === $ && null == s3.key ? s3.props.children : s3, M.__P && (s3 = l3, f3 = (t4 = M.__P).namespaceURI, c3 = o3 = null, u3.props && u3.props.__P != t4 && (u3.__k.some(function(n3) {
        n3 && J(n3, n3);
      }), u3.__k = null), l3 = u3.__k ? S(u3, 0) : null), l3 = I(t4, w(A3) ? A3 : [A3], r3, u3, i3, f3, o3, e3, l3, c3, a3), M.__P && (r3.__e = null, l3 = s3), r3.__u &= -161, p3 && p3.some(g), d3.__h.length && e3.push(d3), 1 & d3.__g && (d3.__g &= -4);
    } catch (t5) {
      if (e3.length = v3, r3.__v = null, c3 || o3) if (t5 && t5.then) {
        if (r3.__u |= 128 | c3, o3) {
          for (~(T3 = o3.indexOf(l3 || void 0)) || (T3 = o3.length); (N2 = o3[T3 - 1]) && 8 == N2.nodeType; ) T3--;
          for (; T3 < o3.length; T3++) if (N2 = o3[T3]) if (o3[T3] = null, O2) {
            if (N2 == P3) break;
          } else {
            if (8 != N2.nodeType) break;
            N2.data.startsWith("$s") && (P3 = B(O2 = N2));
          }
        }
        if (!O2) {
          for (; l3 && 8 == l3.nodeType && l3.nextSibling; ) l3 = l3.nextSibling;
          O2 = l3;
        }
        (s3 = B(O2 = r3.__c.__z || (r3.__c.__z = O2))) ? (r3.__e = O2, l3 = s3) : r3.__e = l3, l3 = l3 && l3.nextSibling;
      } else o3 && o3.some(g);
      else r3.__e = u3.__e;
      r3.__k || (r3.__k = u3.__k || []), t5 && t5.then || D(r3), n.__e(t5, r3, u3);
    }
  } else l3 = r3.__e = F(u3.__e, r3, u3, i3, f3, o3, e3, c3, a3, t4);
  return (s3 = n.diffed) && s3(r3), l3;
}
function B(n3, t4) {
  if (n3 && 8 == n3.nodeType && n3.data.startsWith("$s")) for (var r3 = 1; n3 = n3.nextSibling; ) {
    if (8 == n3.nodeType) {
      if (n3.data.startsWith("$s")) r3++;
      else if (n3.data.startsWith("/$s") && !--r3) return n3;
    }
    t4 && t4.push(n3);
  }
}
function D(n3) {
  n3 && (n3.__c && (n3.__c.__g |= 4), n3.__k && n3.__k.some(D));
}
function E(t4, r3, u3) {
  for (var i3 = 0; i3 < u3.length; ) G(u3[i3++], u3[i3++], u3[i3++]);
  n.__c && n.__c(r3, t4), t4.some(function(r4) {
    try {
      t4 = r4.__h, r4.__h = [], t4.some(function(n3) {
        n3.call(r4);
      });
    } catch (t5) {
      n.__e(t5, r4.__v);
    }
  });
}
function F(t4, r3, u3, i3, f3, o3, e3, l3, c3, a3) {
  var s3, h3, y3, _3, k3, b2, m3, M, $2 = u3.props || p, x2 = r3.props, C3 = r3.type;
  if ("svg" == C3 ? f3 = "http://www.w3.org/2000/svg" : "math" == C3 ? f3 = "http://www.w3.org/1998/Math/MathML" : f3 || (f3 = "http://www.w3.org/1999/xhtml"), o3) {
    for (s3 = 0; s3 < o3.length; s3++) if ((k3 = o3[s3]) && (C3 ? k3.localName == C3 : 3 == k3.nodeType)) {
      t4 = k3, o3[s3] = null;
      break;
    }
  }
  if (!t4) {
    if (M = a3.ownerDocument || document, !C3) return M.createTextNode(x2);
    t4 = M.createElementNS(f3, C3, x2.is ? x2 : a3), l3 && (n.__m && n.__m(r3, o3), l3 = false), o3 = null;
  }
  if (C3) {
    if (a3 = "template" == C3 && t4.content || t4, o3 = "textarea" == C3 && null != x2.defaultValue ? null : o3 && d.call(a3.childNodes), !l3 && o3) for ($2 = {}, s3 = 0; s3 < t4.attributes.length; s3++) $2[(k3 = t4.attributes[s3]).name] = k3.value;
    for (s3 in $2) k3 = $2[s3], "dangerouslySetInnerHTML" == s3 ? y3 = k3 : "children" == s3 || s3 in x2 || "value" == s3 && "defaultValue" in x2 || "checked" == s3 && "defaultChecked" in x2 || N(t4, s3, null, k3, f3);
    for (s3 in x2) k3 = x2[s3], "children" == s3 ? _3 = k3 : "dangerouslySetInnerHTML" == s3 ? h3 = k3 : "value" == s3 ? b2 = k3 : "checked" == s3 ? m3 = k3 : l3 && "function" != typeof k3 || $2[s3] === k3 || N(t4, s3, k3, $2[s3], f3);
    h3 ? (l3 || y3 && (h3.__html == y3.__html || h3.__html == t4.innerHTML) || (t4.innerHTML = h3.__html), r3.__k = []) : (y3 && (t4.textContent = ""), ("foreignObject" == C3 || "http://www.w3.org/1998/Math/MathML" == f3 && v.test(C3)) && (f3 = "http://www.w3.org/1999/xhtml"), I(a3, w(_3) ? _3 : [_3], r3, u3, i3, f3, o3, e3, o3 ? o3[0] : u3.__k && S(u3, 0), l3, c3), o3 && o3.some(g)), l3 && "textarea" != C3 || (s3 = "value", "progress" == C3 && null == b2 ? t4.removeAttribute(s3) : null == b2 || b2 === t4[s3] && ("progress" != C3 || b2) || N(t4, s3, b2, $2[s3], f3), s3 = "checked", null != m3 && m3 != t4[s3] && N(t4, s3, m3, $2[s3], f3));
  } else $2 === x2 || l3 && t4.data == x2 || (t4.data = x2);
  return t4;
}
function G(t4, r3, u3, i3) {
  try {
    "function" == typeof t4 ? r3 ? r3.__x = t4(r3) || 1 : i3 && (i3 = i3.__c || i3.__e) && (r3 = i3.__x) && (i3.__x = null, "function" == typeof r3 ? r3() : t4(null)) : t4.current = r3;
  } catch (t5) {
    n.__e(t5, u3);
  }
}
function J(t4, r3, u3) {
  var i3, f3, o3, e3;
  if (n.unmount && n.unmount(t4), !(i3 = t4.ref) || i3.current && i3.current != t4.__e || G(i3, null, r3, t4), i3 = t4.__c) {
    if (i3.componentWillUnmount) try {
      i3.componentWillUnmount();
    } catch (t5) {
      n.__e(t5, r3);
    }
    i3.__P = i3.__n = null;
  }
  if (i3 = t4.__k) for (e3 = 0; e3 < i3.length; e3++) i3[e3] && J(i3[e3], r3, "function" != typeof t4.type || u3 && !t4.props.__P);
  !u3 && (i3 = t4.__c) && (i3 = i3.__z) && (f3 = B(i3, o3 = [])) && (i3 == t4.__e && o3.some(g), g(f3), g(i3)), u3 || g(t4.__e), t4.__e = t4.__c = t4.__ = null;
}
function K(n3, t4, r3) {
  return this.constructor(n3, r3);
}
function Q(t4, r3) {
  var u3, i3, f3, o3;
  n.__ && n.__(t4, r3), 9 == r3.nodeType && (r3 = r3.documentElement), i3 = (u3 = t4 && 32 & t4.__u) ? null : r3.__k, r3.__k = m($, { children: [t4] }), f3 = [], o3 = [], z(r3, r3.__k, i3 || p, p, r3.namespaceURI, i3 ? null : r3.firstChild ? d.call(r3.childNodes) : null, f3, i3 ? i3.__e : r3.firstChild, u3, o3), E(f3, r3.__k, o3), r3.__k.props.children = null;
}
n = { __e: function(n3, t4, r3, u3) {
  for (var i3, o3, e3; t4 = t4.__; ) if ((i3 = t4.__c) && !(1 & i3.__g)) {
    i3.__g |= 4;
    try {
      if ((e3 = (o3 = i3.constructor) && o3.getDerivedStateFromError) && i3.setState(o3.getDerivedStateFromError(n3)), i3.componentDidCatch && (i3.componentDidCatch(n3, u3 || {}), e3 = 1), e3 && 8 & i3.__g) return void (i3.__g |= 2);
    } catch (t5) {
      n3 = t5;
    }
  }
  throw f = 0, n3;
} }, t = 0, r = function(n3) {
  return null != n3 && n3.constructor === h;
}, x.prototype.setState = function(n3, t4) {
  var r3 = this.__s;
  r3 && r3 != this.state || (r3 = this.__s = _({}, this.state)), "function" == typeof n3 && (n3 = n3(_({}, r3), this.props)), n3 && (_(r3, n3), this.__v && (t4 && this.__k.push(t4), L(this)));
}, x.prototype.forceUpdate = function(n3) {
  this.__v && (this.__g |= 4, n3 && this.__h.push(n3), L(this));
}, x.prototype.render = $, u = [], f = 0, o = function(n3, t4) {
  return n3.__v.__b - t4.__v.__b;
}, e = /* @__PURE__ */ Symbol(), l = /(PointerCapture)$|Capture$/i, c = 0, a = {}, s = 0;

// app/vendor/htm.js
var n2 = function(t4, s3, r3, e3) {
  var u3;
  s3[0] = 0;
  for (var h3 = 1; h3 < s3.length; h3++) {
    var p3 = s3[h3++], a3 = s3[h3] ? (s3[0] |= p3 ? 1 : 2, r3[s3[h3++]]) : s3[++h3];
    3 === p3 ? e3[0] = a3 : 4 === p3 ? e3[1] = Object.assign(e3[1] || {}, a3) : 5 === p3 ? (e3[1] = e3[1] || {})[s3[++h3]] = a3 : 6 === p3 ? e3[1][s3[++h3]] += a3 + "" : p3 ? (u3 = t4.apply(a3, n2(t4, a3, r3, ["", null])), e3.push(u3), a3[0] ? s3[0] |= 2 : (s3[h3 - 2] = 0, s3[h3] = u3)) : e3.push(a3);
  }
  return e3;
};
var t2 = /* @__PURE__ */ new Map();
function htm_default(s3) {
  var r3 = t2.get(this);
  return r3 || (r3 = /* @__PURE__ */ new Map(), t2.set(this, r3)), (r3 = n2(this, r3.get(s3) || (r3.set(s3, r3 = (function(n3) {
    for (var t4, s4, r4 = 1, e3 = "", u3 = "", h3 = [0], p3 = function(n4) {
      1 === r4 && (n4 || (e3 = e3.replace(/^\s*\n\s*|\s*\n\s*$/g, ""))) ? h3.push(0, n4, e3) : 3 === r4 && (n4 || e3) ? (h3.push(3, n4, e3), r4 = 2) : 2 === r4 && "..." === e3 && n4 ? h3.push(4, n4, 0) : 2 === r4 && e3 && !n4 ? h3.push(5, 0, true, e3) : r4 >= 5 && ((e3 || !n4 && 5 === r4) && (h3.push(r4, 0, e3, s4), r4 = 6), n4 && (h3.push(r4, n4, 0, s4), r4 = 6)), e3 = "";
    }, a3 = 0; a3 < n3.length; a3++) {
      a3 && (1 === r4 && p3(), p3(a3));
      for (var l3 = 0; l3 < n3[a3].length; l3++) t4 = n3[a3][l3], 1 === r4 ? "<" === t4 ? (p3(), h3 = [h3], r4 = 3) : e3 += t4 : 4 === r4 ? "--" === e3 && ">" === t4 ? (r4 = 1, e3 = "") : e3 = t4 + e3[0] : u3 ? t4 === u3 ? u3 = "" : e3 += t4 : '"' === t4 || "'" === t4 ? u3 = t4 : ">" === t4 ? (p3(), r4 = 1) : r4 && ("=" === t4 ? (r4 = 5, s4 = e3, e3 = "") : "/" === t4 && (r4 < 5 || ">" === n3[a3][l3 + 1]) ? (p3(), 3 === r4 && (h3 = h3[0]), r4 = h3, (h3 = h3[0]).push(2, 0, r4), r4 = 0) : " " === t4 || "	" === t4 || "\n" === t4 || "\r" === t4 ? (p3(), r4 = 2) : e3 += t4), 3 === r4 && "!--" === e3 && (r4 = 4, h3 = h3[0]);
    }
    return p3(), h3;
  })(s3)), r3), arguments, [])).length > 1 ? r3 : r3[0];
}

// app/vendor/hooks.js
var t3;
var r2;
var u2;
var i2;
var o2 = Object.is;
var f2 = 0;
var c2 = [];
var e2 = [];
var a2 = n;
var v2 = a2.__b;
var l2 = a2.__r;
var m2 = a2.diffed;
var h2 = a2.__c;
var s2 = a2.unmount;
var p2 = a2.__;
function y2(n3, t4) {
  a2.__h && a2.__h(r2, n3, f2 || t4), f2 = 0;
  var u3 = r2.__H || (r2.__H = { __: [], __h: [] });
  return n3 >= u3.__.length && u3.__.push({}), u3.__[n3];
}
function d2(n3) {
  return f2 = 1, _2(G2, n3);
}
function _2(n3, u3, i3) {
  var f3 = y2(t3++, 2);
  if (f3.t = n3, !f3.__c && (f3.__ = [i3 ? i3(u3) : G2(void 0, u3), function(n4) {
    var t4 = (f3.__N || f3.__)[0], r3 = f3.t(t4, n4);
    o2(t4, r3) || (f3.__N = [r3, f3.__[1]], f3.__c.setState({}));
  }], f3.__c = r2, !r2.__f)) {
    r2.__f = true;
    var c3 = r2.shouldComponentUpdate;
    r2.shouldComponentUpdate = function(n4, t4, r3) {
      var u4 = this.__H;
      if (!u4) return true;
      var i4 = false, f4 = this.props != n4;
      if (u4.__.some(function(n5) {
        n5.__N && (i4 = true, o2(n5.__[0], n5.__N[0]) || (f4 = true));
      }), c3) {
        var e3 = c3.call(this, n4, t4, r3);
        return i4 ? e3 || f4 : e3;
      }
      return !i4 || f4;
    };
  }
  return f3.__;
}
function A2(n3, u3) {
  var i3 = y2(t3++, 3);
  !a2.__s && E2(i3.__H, u3) && (i3.__P = true, i3.__ = n3, i3.u = u3, r2.__H.__h.push(i3));
}
function F2(n3, u3) {
  var i3 = y2(t3++, 4);
  !a2.__s && E2(i3.__H, u3) && (i3.__P = false, i3.__ = n3, i3.u = u3, r2.__h.push(i3));
}
function T2(n3) {
  return f2 = 5, w2(function() {
    return { current: n3 };
  }, []);
}
function w2(n3, r3) {
  var u3 = y2(t3++, 7);
  return E2(u3.__H, r3) && (u3.__ = n3(), u3.__H = r3), u3.__;
}
function b(n3, t4) {
  return f2 = 8, w2(function() {
    return n3;
  }, t4);
}
function O(n3) {
  var u3 = y2(t3++, 10), i3 = d2();
  return u3.__ = n3, r2.componentDidCatch || (r2.componentDidCatch = function(n4, t4) {
    u3.__ && u3.__(n4, t4), i3[1](n4);
  }), [i3[0], function() {
    return i3[1]();
  }];
}
function P2() {
  var n3 = y2(t3++, 11);
  if (!n3.__) {
    for (var u3 = r2.__v; !u3.__m && u3.__; ) u3 = u3.__;
    var i3 = u3.__m || (u3.__m = [0, 0]);
    n3.__ = "P" + i3[0] + "-" + i3[1]++;
  }
  return n3.__;
}
function g2() {
  var n3;
  do {
    for (; n3 = e2.shift(); ) try {
      C2(n3);
    } catch (t5) {
      a2.__e(t5, { __: (n3 = n3.__P) && n3.__v });
    }
    for (; n3 = c2.shift(); ) {
      var t4 = n3.__H;
      if (n3.__P && t4) try {
        t4.__h.some(C2), t4.__h.some(D2), t4.__h = [];
      } catch (r3) {
        t4.__h = [], a2.__e(r3, n3.__v);
      }
    }
  } while (e2.length);
}
a2.__b = function(n3) {
  r2 = null, v2 && v2(n3);
}, a2.__ = function(n3, t4) {
  n3 && t4.__k && t4.__k.__m && (n3.__m = t4.__k.__m), p2 && p2(n3, t4);
}, a2.__r = function(n3) {
  l2 && l2(n3), t3 = 0;
  var i3 = (r2 = n3.__c).__H;
  i3 && (u2 == r2 ? r2.__h = [] : (i3.__h.some(C2), i3.__h.some(D2), t3 = 0), i3.__h = [], i3.__.some(function(n4) {
    n4.__N && (n4.__ = n4.__N), n4.u = n4.__N = void 0;
  })), u2 = r2;
}, a2.diffed = function(n3) {
  m2 && m2(n3);
  var t4 = n3.__c;
  t4 && t4.__H && (t4.__H.__h.length && B2(c2.push(t4)), t4.__H.__.some(function(n4) {
    n4.u && (n4.__H = n4.u);
  })), u2 = r2 = null;
}, a2.__c = function(n3, t4) {
  t4.some(function(n4) {
    try {
      n4.__h.some(C2), n4.__h = n4.__h.filter(function(n5) {
        return !n5.__ || D2(n5);
      });
    } catch (t5) {
      n4.__h = [function() {
        throw t5;
      }];
    }
  }), h2 && h2(n3, t4);
}, a2.unmount = function(n3) {
  s2 && s2(n3);
  var t4, r3, u3 = n3.__c;
  u3 && u3.__H && (u3.__H.__.some(function(u4) {
    try {
      if (u4.__P && u4.__c) {
        if (void 0 === r3) {
          for (r3 = n3.__; r3 && (!r3.__c || !r3.__c.__P); ) r3 = r3.__;
          r3 = r3 && r3.__c;
        }
        u4.__P = r3, B2(e2.push(u4));
      } else C2(u4);
    } catch (n4) {
      t4 = n4;
    }
  }), u3.__H = void 0, t4 && a2.__e(t4, u3.__v));
};
var k2 = "function" == typeof requestAnimationFrame;
function z2(n3) {
  var t4, r3 = function() {
    clearTimeout(u3), k2 && cancelAnimationFrame(t4), setTimeout(n3);
  }, u3 = setTimeout(r3, 35);
  k2 && (t4 = requestAnimationFrame(r3));
}
function B2(n3) {
  1 != n3 && i2 == a2.requestAnimationFrame || ((i2 = a2.requestAnimationFrame) || z2)(g2);
}
function C2(n3) {
  var t4 = r2, u3 = n3.__c;
  "function" == typeof u3 && (n3.__c = void 0, u3()), r2 = t4;
}
function D2(n3) {
  var t4 = r2;
  n3.__c = n3.__(), r2 = t4;
}
function E2(n3, t4) {
  return !n3 || n3.length != t4.length || t4.some(function(t5, r3) {
    return !o2(t5, n3[r3]);
  });
}
function G2(n3, t4) {
  return "function" == typeof t4 ? t4(n3) : t4;
}

// app/lib/dom.js
var html = htm_default.bind(k);

// app/lib/focus.js
var last = null;
var around = [];
var position = 0;
var byKeyboard = false;
function keepFocus() {
  document.addEventListener("focusin", ({ target }) => remember(target));
  document.addEventListener("focusout", () => setTimeout(forget));
  new MutationObserver(restore).observe(document.body, { childList: true, subtree: true });
}
var isLost = () => last !== null && document.activeElement === document.body;
function remember(target) {
  last = target;
  byKeyboard = target.matches(":focus-visible");
  around = [];
  for (let box = target.parentElement; box; box = box.parentElement) around.push(box);
  const button = target.closest("dialog")?.previousElementSibling ?? target;
  position = actionsOf(button.parentElement).indexOf(button);
}
function forget() {
  if (isLost() && last.isConnected) last = null;
}
function restore() {
  if (!isLost()) return;
  const place3 = last.isConnected ? last : nearest();
  place3?.focus({ preventScroll: !byKeyboard });
}
function nearest() {
  for (const box of around.filter((b2) => b2.isConnected)) {
    const actions = box.matches(".actions") ? actionsOf(box).filter((b2) => !b2.disabled) : [];
    if (actions.length > 0) return actions[Math.min(Math.max(position, 0), actions.length - 1)];
    if (box.matches(".table-scroll")) return box;
    const heading = box.matches("article, section, dialog") && box.querySelector("h2, h3");
    if (heading) {
      heading.tabIndex = -1;
      return heading;
    }
  }
  return document.querySelector("main h1");
}
var actionsOf = (box) => [...box?.querySelectorAll(":scope > .button") ?? []];

// app/lib/store.js
var Store = class {
  #subscribers = /* @__PURE__ */ new Set();
  constructor(value) {
    this.value = value;
  }
  set(value) {
    this.value = value;
    for (const fn of [...this.#subscribers]) fn(value);
  }
  /** @returns {() => void} ends the subscription */
  subscribe(fn) {
    this.#subscribers.add(fn);
    return () => this.#subscribers.delete(fn);
  }
};
function useStore(store) {
  const [value, setValue] = d2(store.value);
  A2(() => {
    setValue(() => store.value);
    return store.subscribe((v3) => setValue(() => v3));
  }, [store]);
  return value;
}

// app/lib/router.js
var ROOT = "/ui";
var read = () => ({ path: location.pathname, query: new URLSearchParams(location.search), state: history.state ?? {} });
var place = new Store(read());
var currentLocation = () => place.value;
var region = () => place.value.query.get("region") ?? "";
function navigate(href2, { replace = false, state = {} } = {}) {
  history[replace ? "replaceState" : "pushState"](state, "", href2);
  place.set(read());
}
function href(path, query = {}) {
  const out = new URLSearchParams();
  for (const [key, value] of Object.entries({ region: region(), ...query })) {
    if (value !== null && value !== void 0 && value !== "") out.set(key, value);
  }
  const text = out.toString();
  return text ? `${path}?${text}` : path;
}
function replaceQuery(changes, state = {}) {
  const query = Object.fromEntries(place.value.query);
  navigate(href(place.value.path, { ...query, ...changes }), { replace: true, state });
}
function pushQuery(changes, state = {}) {
  const query = Object.fromEntries(place.value.query);
  navigate(href(place.value.path, { ...query, ...changes }), { state });
}
function match(routes2, path) {
  const all2 = path.replace(/\/+$/, "").split("/");
  for (const route of routes2) {
    const want = route.path.split("/");
    const open = want.at(-1).startsWith("*");
    if (open ? all2.length < want.length : all2.length !== want.length) continue;
    const got = open ? [...all2.slice(0, want.length - 1), all2.slice(want.length - 1).join("/")] : all2;
    const params = {};
    const fits = want.every((segment, i3) => {
      if (!/^[:*]/.test(segment)) return segment === got[i3];
      params[segment.slice(1)] = decode(got[i3]);
      return got[i3] !== "";
    });
    if (fits) return { route, params };
  }
  return null;
}
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
var isTerminal = (path) => path.startsWith(`${ROOT}/exec/`);
function startRouter() {
  addEventListener("popstate", () => place.set(read()));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname !== ROOT && !link.pathname.startsWith(ROOT + "/")) return;
    if (isTerminal(link.pathname) !== isTerminal(location.pathname)) return;
    if (link.hash && link.pathname === location.pathname && link.search === location.search) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}

// app/lib/api.js
var ApiError = class extends Error {
  constructor(status, message) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
};
var reachable = new Store(true);
function at(parts, ...params) {
  return String.raw({ raw: parts }, ...params.map(encodeURIComponent));
}
async function request(method, path, { params = {}, body, signal } = {}) {
  const response = await send(method, path, { params, body, signal });
  const text = await response.text();
  return {
    data: text && isJSON(response) ? JSON.parse(text) : text || null,
    index: Number(response.headers.get("X-Nomad-Index") ?? 0),
    next: response.headers.get("X-Nomad-NextToken") ?? ""
  };
}
var isJSON = (response) => (response.headers.get("Content-Type") ?? "").startsWith("application/json");
async function send(method, path, { params = {}, body, signal } = {}) {
  const headers = {};
  const token = currentToken();
  if (token) headers["X-Nomad-Token"] = token;
  if (body !== void 0) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(url(path, params), {
      method,
      headers,
      signal,
      body: body === void 0 ? void 0 : JSON.stringify(body),
      cache: "no-store",
      credentials: "omit",
      redirect: "error"
    });
  } catch (err) {
    if (signal?.aborted) throw err;
    if (reachable.value) reachable.set(false);
    throw new ApiError(0, "The agent does not answer.");
  }
  if (!reachable.value) reachable.set(true);
  if (response.ok) return response;
  const text = (await response.text()).trim();
  if (token && (response.status === 401 || response.status === 403)) tokenRefused();
  throw new ApiError(response.status, text || `${response.status} ${response.statusText}`);
}
function url(path, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries({ region: region() || null, ...params })) {
    if (value !== null && value !== void 0 && value !== "") query.set(key, String(value));
  }
  const text = query.toString();
  return text ? path + (path.includes("?") ? "&" : "?") + text : path;
}
var api = {
  get: (path, params, signal) => request("GET", path, { params, signal }),
  put: (path, body, params) => request("PUT", path, { params, body }),
  post: (path, body, params) => request("POST", path, { params, body }),
  del: (path, params) => request("DELETE", path, { params })
};

// app/lib/session.js
var KEY = "nomad.token";
var session = new Store({ state: "unknown", self: null, error: "" });
var currentToken = () => sessionStorage.getItem(KEY) ?? "";
async function signIn(token) {
  sessionStorage.setItem(KEY, token.trim());
  await checkToken();
}
async function signOut() {
  sessionStorage.removeItem(KEY);
  await checkToken();
}
async function checkToken() {
  const token = currentToken();
  try {
    const { data } = await api.get("/v1/acl/token/self");
    if (token !== currentToken()) return;
    if (data?.AccessorID === "acls-disabled") session.set({ state: "off", self: null, error: "" });
    else session.set({ state: token ? "signed-in" : "anonymous", self: token ? data : null, error: "" });
  } catch (err) {
    if (token !== currentToken()) return;
    if (!(err instanceof ApiError)) throw err;
    if (err.status === 401 || err.status === 403 || err.status === 404) {
      session.set({ state: token ? "refused" : "anonymous", self: null, error: token ? err.message : "" });
    }
  }
}
var checked = 0;
function tokenRefused() {
  if (session.value.state === "refused" || Date.now() - checked < 5e3) return;
  checked = Date.now();
  checkToken();
}
async function exchangeOneTimeToken(secret) {
  try {
    const { data } = await api.put("/v1/acl/token/onetime/exchange", { OneTimeSecretID: secret });
    await signIn(data.Token.SecretID);
  } catch (err) {
    await checkToken();
    session.set({ ...session.value, error: `The one-time token was not accepted: ${err.message}` });
  }
}

// app/lib/live.js
var live = new Store("idle");
var STREAMS = 4;
var POLL = 1e4;
var RETRY_FIRST = 1e3;
var RETRY_MOST = 3e4;
var subscribers = /* @__PURE__ */ new Set();
var running = null;
var wanted = "";
var timer = 0;
function subscribe(subscriber) {
  subscribers.add(subscriber);
  schedule();
  return () => {
    subscribers.delete(subscriber);
    schedule();
  };
}
function schedule() {
  clearTimeout(timer);
  timer = setTimeout(restart, 50);
}
function topicsOf() {
  const namespaces = new Set([...subscribers].map((s3) => s3.namespace || "*"));
  return {
    topics: [...new Set([...subscribers].flatMap((s3) => s3.topics))].sort(),
    namespace: namespaces.size === 1 ? [...namespaces][0] : "*"
  };
}
function restart({ force = false } = {}) {
  const scope = topicsOf();
  const now = JSON.stringify(scope);
  if (!force && now === wanted && running) return;
  running?.abort();
  running = null;
  wanted = now;
  if (document.hidden || scope.topics.length === 0) {
    live.set("idle");
    return;
  }
  running = new AbortController();
  run(scope, running.signal);
}
async function run(scope, signal) {
  live.set("connecting");
  if (!await reserve(signal)) return poll(signal);
  let next = subscribers.size > 0 ? Math.min(...[...subscribers].map((s3) => s3.index || 0)) + 1 : 1;
  for (let wait = RETRY_FIRST; !signal.aborted; wait = Math.min(wait * 2, RETRY_MOST)) {
    try {
      next = await follow(scope, next, signal, () => {
        wait = RETRY_FIRST;
      });
    } catch (err) {
      if (signal.aborted) return;
      if (err.status === 401 || err.status === 403) return poll(signal);
    }
    if (signal.aborted) return;
    live.set("lost");
    await pause(wait, signal);
    if (!signal.aborted) resume();
  }
}
async function reserve(signal) {
  if (!navigator.locks) return true;
  for (let n3 = 0; n3 < STREAMS && !signal.aborted; n3++) {
    const got = await new Promise((done2) => {
      navigator.locks.request(`nomad.stream.${n3}`, { ifAvailable: true }, (lock) => {
        done2(lock !== null);
        return lock && new Promise((end) => signal.addEventListener("abort", end, { once: true }));
      });
    });
    if (got) return true;
  }
  return false;
}
async function follow({ topics, namespace }, next, signal, opened) {
  const query = new URLSearchParams({ namespace, index: String(next) });
  for (const topic of topics) query.append("topic", topic);
  const response = await send("GET", `/v1/event/stream?${query}`, { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  live.set("live");
  opened();
  for (let text = ""; ; ) {
    const { value, done: done2 } = await reader.read();
    if (done2) return next;
    const lines2 = (text + value).split("\n");
    text = lines2.pop();
    for (const line of lines2) {
      const batch = JSON.parse(line);
      if (batch.Index) next = batch.Index + 1;
      for (const event of batch.Events ?? []) dispatch(event);
    }
  }
}
function dispatch(event) {
  for (const s3 of [...subscribers]) {
    if (event.Index > (s3.index || 0) && s3.topics.some((topic) => covers(topic, event))) s3.onEvent(event);
  }
}
function covers(topic, event) {
  const [name2, ...rest] = topic.split(":");
  const key = rest.join(":");
  if (name2 !== "*" && name2 !== event.Topic) return false;
  return key === "" || key === "*" || key === event.Key || (event.FilterKeys ?? []).includes(key);
}
async function poll(signal) {
  live.set("polling");
  while (!signal.aborted) {
    await pause(POLL, signal);
    if (!signal.aborted) resume();
  }
}
var resume = () => {
  for (const s3 of [...subscribers]) s3.onResume();
};
var pause = (ms, signal) => new Promise((done2) => {
  const t4 = setTimeout(done2, ms);
  signal.addEventListener("abort", () => {
    clearTimeout(t4);
    done2();
  }, { once: true });
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) resume();
  schedule();
});
var last2 = "";
session.subscribe(({ state, self }) => {
  const now = `${state} ${self?.AccessorID ?? ""}`;
  if (now !== last2 && last2 !== "") {
    restart({ force: true });
    resume();
  }
  last2 = now;
});

// app/parts/field.js
function Field({ label, value, onInput, type = "text", hint, error, ...rest }) {
  const id = P2();
  const shared = {
    id,
    value,
    onInput: (e3) => onInput(e3.target.value),
    autocomplete: "off",
    spellcheck: false,
    "aria-describedby": hint || error ? `${id}-hint` : null,
    "aria-invalid": error ? "true" : null,
    ...rest
  };
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${type === "textarea" ? html`<textarea ...${shared}></textarea>` : html`<input type=${type} ...${shared} />`}
    ${(hint || error) && html`<p id=${`${id}-hint`} class=${error ? "hint error" : "hint"}>${error ?? hint}</p>`}
  </div>`;
}
function Check({ label, checked: checked2, onChange }) {
  const id = P2();
  return html`<div class="check"><input id=${id} type="checkbox" checked=${checked2} onChange=${(e3) => onChange(e3.target.checked)} /><label for=${id}>${label}</label></div>`;
}

// app/parts/icon.js
var PATHS = {
  ok: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm3.6 5.3-4.2 4.6a.8.8 0 0 1-1.2 0L4.4 9l1.2-1.1 1.2 1.3 3.6-4Z",
  run: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1ZM6.3 4.9 11.4 8l-5.1 3.1Z",
  wait: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6Zm.8 2H7.2v4l2.9 1.8.8-1.3-2.1-1.3Z",
  warn: "M8 1.2 15.2 14H.8ZM7.2 6v4h1.6V6Zm0 5v1.6h1.6V11Z",
  bad: "M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1Zm.3 3.3L4.3 5.4 6.9 8l-2.6 2.6 1.1 1.1L8 9.1l2.6 2.6 1.1-1.1L9.1 8l2.6-2.6-1.1-1.1L8 6.9Z",
  off: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm-3 6.2h6v1.6H5Z",
  stop: "M3 3h10v10H3Z",
  unknown: "M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1Zm0 1.6a5.4 5.4 0 1 1 0 10.8A5.4 5.4 0 0 1 8 2.6Z",
  lock: "M8 1a3.5 3.5 0 0 0-3.5 3.5V7H3v8h10V7h-1.5V4.5A3.5 3.5 0 0 0 8 1Zm-2 6V4.5a2 2 0 1 1 4 0V7Z",
  shield: "M8 .8 14 3v4.6c0 3.6-2.4 6.2-6 7.6-3.6-1.4-6-4-6-7.6V3Z",
  link: "M9 2h5v5h-1.6V4.7L7.6 9.5 6.5 8.4l4.8-4.8H9ZM3 4h4v1.6H3.6v6.8h6.8V9H12v5H2V4Z",
  menu: "M1 3h14v1.7H1Zm0 4.2h14v1.7H1Zm0 4.2h14v1.7H1Z",
  next: "m5.6 2.6 1.2-1.2L13.4 8l-6.6 6.6-1.2-1.2L11 8Z",
  prev: "M10.4 2.6 9.2 1.4 2.6 8l6.6 6.6 1.2-1.2L5 8Z",
  search: "M7 1a6 6 0 1 0 3.6 10.8l3.3 3.3 1.2-1.2-3.3-3.3A6 6 0 0 0 7 1Zm0 1.7a4.3 4.3 0 1 1 0 8.6 4.3 4.3 0 0 1 0-8.6Z"
};
function Icon({ name: name2 }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path fill="currentColor" fill-rule="evenodd" d=${PATHS[name2] ?? PATHS.unknown} /></svg>`;
}

// app/parts/notice.js
var ICONS = { info: "unknown", ok: "ok", warn: "warn", bad: "bad" };
function Notice({ tone = "info", title, children, actions }) {
  return html`<div class="notice" data-tone=${tone} role=${tone === "bad" ? "alert" : "status"}>
    <${Icon} name=${ICONS[tone]} />
    <div class="notice-text">${title && html`<strong>${title}</strong>`}<div>${children}</div></div>
    ${actions && html`<div class="actions">${actions}</div>`}
  </div>`;
}
function Failure({ error, what = "this" }) {
  const { state } = useStore(session);
  if (!error) return null;
  if (error.status === 0) return null;
  if (error.status === 403 || error.status === 401) {
    if (state === "refused") return null;
    return html`<${Notice} tone="warn" title=${`Your token may not read ${what}.`}>${error.message}. <a href="/ui/settings/tokens">Sign in with another token.</a><//>`;
  }
  return html`<${Notice} tone="bad" title=${`Could not read ${what}.`}>${error.message}<//>`;
}
var Loading = () => html`<p class="loading" role="status">Loading …</p>`;
var Empty = ({ children }) => html`<div class="empty">${children}</div>`;

// app/parts/dialog.js
function Dialog({ title, action, danger = false, onClose, onConfirm, ready = true, signsIn = false, children }) {
  const ref = T2(null);
  const heading = P2();
  const [busy, setBusy] = d2(false);
  const [error, setError] = d2(null);
  A2(() => {
    const dialog = ref.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  async function confirm(event) {
    event.preventDefault();
    if (busy || !ready) return;
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  }
  return html`<dialog ref=${ref} class="dialog" aria-labelledby=${heading} onCancel=${(e3) => {
    e3.preventDefault();
    onClose();
  }}>
    <form onSubmit=${confirm}>
      <h2 id=${heading}>${title}</h2>
      <div class="dialog-body">${children}</div>
      ${error && html`<${Notice} tone="bad" title="That did not work.">${error.message}<//>`}
      <div class="actions">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class=${danger ? "button danger" : "button primary"} disabled=${!ready} aria-disabled=${busy}>${busy ? "Working …" : action}</button>
      </div>
    </form>
    ${!signsIn && html`<${Refused} />`}
  </dialog>`;
}
function DialogButton({ label, danger = false, primary = false, disabled = false, dialog }) {
  const [open, setOpen] = d2(false);
  const button = T2(null);
  const close = () => setOpen(false);
  F2(() => open ? () => button.current?.focus({ preventScroll: true }) : void 0, [open]);
  const kind = danger ? "button danger-quiet" : primary ? "button primary" : "button";
  return html`<button type="button" ref=${button} class=${kind} disabled=${disabled} aria-haspopup="dialog" onClick=${() => setOpen(true)}>${label}</button>
    ${open && dialog(close)}`;
}
function Refused() {
  const { state } = useStore(session);
  if (state !== "refused") return null;
  return html`<${Notice} tone="warn" title="Your token is no longer accepted." actions=${html`<${SignInAgain} />`}>It has expired or was deleted. What you typed stays in this page while you sign in again.<//>`;
}
var SignInAgain = () => html`<${DialogButton} label="Sign in again" dialog=${(close) => html`<${SignIn} onClose=${close} />`} />`;
function SignIn({ onClose }) {
  const [token, setToken] = d2("");
  async function confirm() {
    await signIn(token);
    if (session.value.state === "refused") throw new Error("This token is not accepted either.");
  }
  return html`<${Dialog} title="Sign in again" action="Sign in" ready=${token.trim() !== ""} onClose=${onClose} onConfirm=${confirm} signsIn>
    <${Field} label="Secret ID of an ACL token" type="password" value=${token} onInput=${setToken} maxlength="8192" />
    <p class="hint"><a href=${href("/ui/settings/tokens")} onClick=${onClose}>Other ways to sign in</a> are another page: what you typed into this page is lost there.</p>
  <//>`;
}

// app/lib/format.js
var shortID = (id) => String(id ?? "").slice(0, 8);
function toDate(value) {
  if (!value) return null;
  const date = typeof value === "number" ? new Date(value / 1e6) : new Date(value);
  return Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1971 ? null : date;
}
function localTime(date) {
  const [month, day, ...clock] = [date.getMonth() + 1, date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()].map((n3) => String(n3).padStart(2, "0"));
  return `${date.getFullYear()}-${month}-${day} ${clock.join(":")}`;
}
var UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
function duration(seconds) {
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [unit, size] of UNITS) {
    const n3 = Math.floor(left / size);
    if (n3 > 0 || parts.length > 0) parts.push(n3 > 0 ? `${n3}${unit}` : "");
    left -= n3 * size;
    if (parts.length === 2) break;
  }
  return parts.filter(Boolean).join(" ") || "0s";
}
var nanoseconds = (ns) => ns < 1e9 ? `${Math.round(ns / 1e6)}ms` : duration(ns / 1e9);
var count = (n3) => String(Math.round(n3 ?? 0)).replace(/\B(?=(\d{3})+$)/g, ",");
var plural = (n3, word2, many = `${word2}s`) => `${count(n3)} ${n3 === 1 ? word2 : many}`;
function mebibytes(mb) {
  return mb >= 10240 ? `${(mb / 1024).toFixed(mb >= 102400 ? 0 : 1)} GiB` : `${count(mb)} MiB`;
}
function bytes(n3) {
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (n3 < 1024 || unit === "TiB") return `${unit === "B" ? n3 : n3.toFixed(1)} ${unit}`;
    n3 /= 1024;
  }
  return "";
}
var percent = (part, whole) => whole > 0 ? Math.round(part / whole * 100) : 0;
var capital = (text) => text ? text[0].toUpperCase() + text.slice(1) : "";
var isolated = (name2) => `⁨${name2}⁩`;
var INVISIBLE = /[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;
var visible = (text) => String(text).replace(INVISIBLE, (c3) => `\\u${c3.charCodeAt(0).toString(16).padStart(4, "0")}`);

// app/parts/name.js
function Name({ of }) {
  return html`<bdi class="name">${of}</bdi>`;
}
function Code({ of }) {
  return html`<code class="name"><bdi>${of}</bdi></code>`;
}

// app/parts/page.js
function Page({ title, crumbs = [], status, actions, tabs, children }) {
  A2(() => {
    document.title = `${isolated(title)} · open-nomad`;
  }, [title]);
  return html`
    <header class="page-head">
      ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Breadcrumb"><ol>${crumbs.map((c3) => html`<li><a href=${c3.href}><${Name} of=${c3.label} /></a></li>`)}</ol></nav>`}
      <div class="page-title"><h1 tabindex="-1"><${Name} of=${title} /></h1>${status}<div class="actions">${actions}</div></div>
      ${tabs}
    </header>
    ${children}`;
}
function Tabs({ tabs, current, label }) {
  return html`<nav class="tabs" aria-label=${label}><ul>${tabs.map((t4) => html`<li><a href=${t4.href} aria-current=${t4.href === current ? "page" : null}>${t4.label}</a></li>`)}</ul></nav>`;
}
function Section({ title, actions, children }) {
  return html`<section class="section"><div class="section-head"><h2>${title}</h2>${actions && html`<div class="actions">${actions}</div>`}</div>${children}</section>`;
}
function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value !== null && value !== void 0 && value !== "").map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// app/parts/status.js
var LOOKS = {
  running: ["ok", "run"],
  complete: ["idle", "ok"],
  pending: ["info", "wait"],
  dead: ["idle", "stop"],
  failed: ["bad", "bad"],
  lost: ["bad", "warn"],
  unknown: ["warn", "unknown"],
  stopped: ["idle", "stop"],
  ready: ["ok", "ok"],
  initializing: ["info", "wait"],
  down: ["bad", "bad"],
  disconnected: ["warn", "warn"],
  draining: ["warn", "wait"],
  ineligible: ["warn", "off"],
  eligible: ["ok", "ok"],
  successful: ["ok", "ok"],
  cancelled: ["idle", "off"],
  canceled: ["idle", "off"],
  paused: ["warn", "wait"],
  blocked: ["warn", "wait"],
  unblocking: ["info", "wait"],
  healthy: ["ok", "ok"],
  unhealthy: ["bad", "bad"],
  alive: ["ok", "ok"],
  left: ["idle", "off"],
  degraded: ["warn", "warn"],
  scaled: ["idle", "off"]
};
function Status({ of, label, tone, icon }) {
  const [knownTone, knownIcon] = LOOKS[of] ?? ["idle", "unknown"];
  return html`<span class="status" data-tone=${tone ?? knownTone}><${Icon} name=${icon ?? knownIcon} />${label ?? capital(String(of ?? "unknown"))}</span>`;
}
function jobStatus(job) {
  const sum = sumOf(job.JobSummary);
  if (job.Stop || job.Status === "dead") {
    if (job.Stop) return "stopped";
    return sum.Failed + sum.Lost > 0 && sum.Complete === 0 ? "failed" : "complete";
  }
  if (job.Status === "pending") return "pending";
  if (job.Periodic || job.ParameterizedJob) return "running";
  return sum.Queued + sum.Unknown > 0 ? "degraded" : "running";
}
var STATES = ["Queued", "Starting", "Running", "Unknown", "Failed", "Lost", "Complete"];
function sumOf(summary) {
  const out = Object.fromEntries(STATES.map((s3) => [s3, 0]));
  for (const group of Object.values(summary?.Summary ?? {})) {
    for (const s3 of STATES) out[s3] += group[s3] ?? 0;
  }
  return out;
}

// app/pages/absent.js
var PAGES = {
  csi: ["CSI volumes and plugins", html`<p>CSI is not part of this project, so there are no CSI volumes and plugins to show.</p>`],
  optimize: ["Recommendations", html`<p>Dynamic application sizing is not part of this project, so there are no recommendations.</p>`],
  storage: ["Storage", html`<p>The web UI has no page of volumes. <${Code} of="nomad volume status" /> lists them, and the page of a node shows its own.</p><p><a href="/ui/clients">Nodes</a></p>`]
};
function Absent() {
  const [title, text] = PAGES[place.value.path.split("/")[2]];
  return html`<${Page} title=${title}>${text}<//>`;
}

// app/lib/filter.js
function quote(value) {
  return `"${JSON.stringify(String(value).toWellFormed()).slice(1, -1).replace(/\\./g, (escape) => escape === '\\"' ? "\\u0022" : escape)}"`;
}
function contains(fields, text) {
  return fields.map((field) => `${field} contains ${quote(text)}`).join(" or ");
}
function all(...conditions) {
  const parts = conditions.filter(Boolean);
  return parts.length > 1 ? parts.map((c3) => `(${c3})`).join(" and ") : parts[0] ?? "";
}

// app/lib/query.js
var GAP = 1e3;
var EMPTY = { data: void 0, error: null, index: 0, next: "", loading: true };
function useQuery(path, { params = {}, topics = [], namespace = params.namespace, gap = GAP } = {}) {
  const key = path === null ? null : url(path, params);
  const [result, setResult] = d2({ key, ...EMPTY });
  const latest = T2(null);
  const subscriber = T2(null);
  const refresh = b(async () => {
    if (key === null) return;
    latest.current?.abort();
    const control = latest.current = new AbortController();
    try {
      const { data, index, next } = await api.get(path, params, control.signal);
      if (control.signal.aborted) return;
      if (subscriber.current) subscriber.current.index = index;
      setResult({ key, data, error: null, index, next, loading: false });
    } catch (error) {
      if (control.signal.aborted) return;
      setResult((old) => ({ ...old.key === key ? old : { key, ...EMPTY }, error, loading: false }));
    }
  }, [key]);
  F2(() => {
    refresh();
    return () => latest.current?.abort();
  }, [refresh]);
  const topicKey = topics.join(" ");
  const known = result.key === key && !result.loading;
  A2(() => {
    if (key === null || topics.length === 0 || !known) return void 0;
    const change = spaced(refresh, gap);
    subscriber.current = { topics, namespace, index: result.index, onEvent: change, onResume: change };
    const end = subscribe(subscriber.current);
    return () => {
      end();
      change.cancel();
      subscriber.current = null;
    };
  }, [refresh, topicKey, namespace, known]);
  const shown = result.key === key ? result : { key, ...EMPTY };
  return { ...shown, refresh };
}
function spaced(fn, gap) {
  let timer2 = 0;
  let again = false;
  const run2 = () => {
    if (timer2) {
      again = true;
      return;
    }
    fn();
    timer2 = setTimeout(() => {
      timer2 = 0;
      if (again) {
        again = false;
        run2();
      }
    }, gap);
  };
  run2.cancel = () => clearTimeout(timer2);
  return run2;
}

// app/parts/namespaces.js
function Namespaces({ value, onChange }) {
  const id = P2();
  const { data } = useQuery(at`/v1/namespaces`);
  const names2 = (data ?? []).map((n3) => n3.Name);
  if (names2.length < 2 && value === "*") return null;
  if (value !== "*" && !names2.includes(value)) names2.push(value);
  return html`<div class="field">
    <label for=${id}>Namespace</label>
    <select id=${id} value=${value} onChange=${(e3) => onChange(e3.target.value)}>
      <option value="*">All namespaces</option>
      ${names2.sort().map((name2) => html`<option value=${name2}>${name2}</option>`)}
    </select>
  </div>`;
}

// app/parts/table.js
function Table({ caption, columns: columns3, rows, rowKey, busy = false }) {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label=${caption}>
    <table aria-busy=${busy}>
      <caption class="hidden">${caption}</caption>
      <thead><tr>${columns3.map((c3) => html`<th scope="col" data-kind=${c3.kind}>${c3.label}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${rowKey(row)}>${columns3.map((c3) => c3.head ? html`<th scope="row" data-kind=${c3.kind}>${c3.cell(row)}</th>` : html`<td data-kind=${c3.kind}>${c3.cell(row)}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;
}

// app/parts/list.js
var PER_PAGE = 50;
var TYPING = 250;
function List({ path, what, columns: columns3, rowKey, params = {}, filter = "", search = [], facets = [], namespaced = false, topics = [], empty }) {
  const { query, state } = useStore(place);
  const text = query.get("q") ?? "";
  const chosen = facets.map((f3) => f3.options.find((o3) => o3.value === query.get(f3.key))?.filter);
  const expression = all(filter, search.length > 0 && text ? contains(search, text) : "", ...chosen);
  const namespace = namespaced ? query.get("namespace") || "*" : params.namespace;
  const result = useQuery(path, {
    params: { ...params, namespace, filter: expression, per_page: PER_PAGE, next_token: query.get("after") },
    topics
  });
  const rows = result.data ?? [];
  const anonymous = useStore(session).state === "anonymous";
  const narrowed = expression !== filter || namespaced && namespace !== "*";
  return html`
    <div class="list-tools" role="search" aria-label=${`Filter ${what}`}>
      ${search.length > 0 && html`<${Search} what=${what} text=${text} fields=${search} />`}
      ${namespaced && html`<${Namespaces} value=${namespace} onChange=${(v3) => restart2({ namespace: v3 === "*" ? null : v3 })} />`}
      ${facets.map((f3) => html`<${Choice} facet=${f3} value=${query.get(f3.key) ?? ""} />`)}
    </div>
    <${Failure} error=${result.error} what=${what} />
    ${result.data === void 0 && !result.error && html`<${Loading} />`}
    ${rows.length > 0 && html`<${Table} caption=${what} columns=${columns3} rows=${rows} rowKey=${rowKey} busy=${result.loading} />`}
    ${result.data !== void 0 && rows.length === 0 && html`<${Empty}>${narrowed ? html`<p>No ${what} match the filter.</p><p><button type="button" class="button" onClick=${() => clear(facets)}>Clear the filter</button></p>` : anonymous ? html`<p>Without a token you may read no ${what}.</p><p><a href="/ui/settings/tokens">Sign in</a></p>` : empty ?? html`<p>There are no ${what}.</p>`}<//>`}
    <${Pager} what=${what} rows=${rows.length} next=${result.next} after=${query.get("after")} before=${state.before ?? []} />`;
}
var restart2 = (changes) => pushQuery({ ...changes, after: null });
var clear = (facets) => restart2(Object.fromEntries(["q", "namespace", ...facets.map((f3) => f3.key)].map((key) => [key, null])));
function Search({ what, text, fields }) {
  const id = P2();
  const [typed, setTyped] = d2(text);
  A2(() => setTyped(text), [text]);
  A2(() => {
    if (typed === text) return void 0;
    const timer2 = setTimeout(() => replaceQuery({ q: typed || null, after: null }), TYPING);
    return () => clearTimeout(timer2);
  }, [typed]);
  return html`<div class="field search">
    <label for=${id}>Search</label>
    <${Icon} name="search" />
    <input id=${id} type="search" value=${typed} maxlength="200" autocomplete="off" spellcheck="false" title=${`${fields.join(" or ")} contains this text, with the same case`}
      placeholder=${`Filter ${what}`} onInput=${(e3) => setTyped(e3.target.value)} />
  </div>`;
}
function Choice({ facet, value }) {
  const id = P2();
  return html`<div class="field">
    <label for=${id}>${facet.label}</label>
    <select id=${id} value=${value} onChange=${(e3) => restart2({ [facet.key]: e3.target.value || null })}>
      <option value="">All</option>
      ${facet.options.map((o3) => html`<option value=${o3.value}>${o3.label}</option>`)}
    </select>
  </div>`;
}
function Pager({ what, rows, next, after, before }) {
  if (!next && !after) return null;
  const first = before.length * PER_PAGE + 1;
  const known = !after || before.length > 0;
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <span aria-live="polite">${known && rows > 0 ? `${first}–${first + rows - 1}` : ""}</span>
    ${after && html`<button type="button" class="button" onClick=${() => pushQuery({ after: before.at(-1) || null }, { before: before.slice(0, -1) })}>
      <${Icon} name="prev" />${before.length > 0 ? "Previous" : "First page"}</button>`}
    ${next && html`<button type="button" class="button" onClick=${() => pushQuery({ after: next }, { before: [...before, after ?? ""] })}>Next<${Icon} name="next" /></button>`}
  </nav>`;
}

// app/pages/administration/methods.js
var COLUMNS = [
  { label: "Name", head: true, cell: (m3) => html`<${Name} of=${m3.Name} />${m3.Default && html` <span class="tag">default</span>`}` },
  { label: "Type", kind: "narrow", cell: (m3) => m3.Type },
  { label: "Rules", cell: (m3) => html`<a href=${`/ui/administration/binding-rules?method=${encodeURIComponent(m3.Name)}`}>Binding rules of <${Name} of=${m3.Name} /></a>` }
];
function Methods() {
  return html`<p>Logins with tokens of an identity provider. <code>nomad acl auth-method create</code> makes one.</p>
    <${List} path=${at`/v1/acl/auth-methods`} what="auth methods" columns=${COLUMNS} rowKey=${(m3) => m3.Name} topics=${["ACLAuthMethod"]} />`;
}

// app/lib/links.js
var seg = encodeURIComponent;
var jobHref = (id, namespace = "default", tab = "") => href(`/ui/jobs/${seg(`${id}@${namespace}`)}${tab ? `/${tab}` : ""}`);
var allocHref = (id, tab = "") => href(`/ui/allocations/${seg(id)}${tab ? `/${tab}` : ""}`);
var execHref = (job, namespace, group, task, alloc) => href(`/ui/exec/${[`${job}@${namespace}`, group, task, alloc].map(seg).join("/")}`);
var fileHref = (alloc, path, offset = 0) => href(`/ui/allocations/${seg(alloc)}/fs`, { path: path === "/" ? "" : path, offset: offset > 0 ? offset : "" });
var nodeHref = (id, tab = "") => href(`/ui/clients/${seg(id)}${tab ? `/${tab}` : ""}`);
var poolHref = (name2) => href("/ui/clients", { pool: name2 === "all" ? null : name2 });
var evalHref = (id) => href(`/ui/evaluations/${seg(id)}`);
var escaped = (path) => path.split("/").map(seg).join("/");
var variableHref = (path, namespace) => href(`/ui/variables/var/${escaped(path)}@${seg(namespace)}`);
var folderHref = (path, namespace) => href(path ? `/ui/variables/path/${escaped(path)}` : "/ui/variables", { namespace });
var policyHref = (name2) => href(`/ui/administration/policies/${seg(name2)}`);
function parseJob(param) {
  const i3 = param.lastIndexOf("@");
  return i3 < 0 ? { id: param, namespace: "default" } : { id: param.slice(0, i3), namespace: param.slice(i3 + 1) || "default" };
}
function webAddress(text) {
  try {
    const url2 = new URL(text);
    return url2.protocol === "https:" || url2.protocol === "http:" ? url2.href : null;
  } catch {
    return null;
  }
}

// app/pages/administration/grants.js
function appliesTo(j2) {
  if (!j2?.Namespace) return "";
  return ["Tasks of", j2.Task && `task ${j2.Task},`, j2.Group && `group ${j2.Group},`, j2.JobID ? `job ${j2.JobID}` : "all jobs", `in namespace ${j2.Namespace}`].filter(Boolean).join(" ");
}
var WORDS = {
  "parse-job": "parse job files",
  "read-fs": "read files of tasks",
  "read-logs": "read logs of tasks",
  "alloc-exec": "run commands in isolated tasks",
  "alloc-node-exec": "run commands in tasks that are not isolated",
  "alloc-lifecycle": "restart, stop and signal tasks",
  "privileged-execution": "run privileged tasks",
  "submit-job": "run, stop and change jobs",
  "scale-job": "scale jobs",
  "dispatch-job": "dispatch jobs",
  "list-jobs": "list jobs",
  "read-job": "read jobs",
  "mount-readonly": "mount it for reading",
  "mount-readwrite": "mount it for writing",
  destroy: "delete"
};
var word = (capability) => WORDS[capability] ?? capability.replaceAll("-", " ");
var words = (list) => list.map(word).join(", ");
var place2 = (kind, name2) => name2 === "*" ? `all ${kind}s` : name2.includes("*") ? `${kind}s that match ${name2}` : `${kind} ${name2}`;
function sentence(where, policy, capabilities = []) {
  if (policy === "deny" || capabilities.includes("deny")) return { where, what: "nothing: everything is denied", deny: true };
  const granted = (capabilities ?? []).length > 0 ? words(capabilities) : policy;
  return { where, what: granted || "nothing: wider rules do not apply here", deny: !granted };
}
var PLAIN = [["Node", "nodes"], ["Agent", "agents"], ["Operator", "the cluster itself (operator)"], ["Quota", "quotas"], ["Plugin", "plugins"]];
function grantsOf(rules) {
  const out = [];
  for (const ns of rules?.Namespaces ?? []) {
    const where = place2("namespace", ns.Name);
    out.push(sentence(where, ns.Policy, ns.Capabilities ?? []));
    for (const p3 of ns.Variables?.Paths ?? []) out.push(sentence(`${where}, ${place2("variable", p3.PathSpec)}`, "", p3.Capabilities ?? []));
  }
  for (const p3 of rules?.NodePools ?? []) out.push(sentence(place2("node pool", p3.Name), p3.Policy, p3.Capabilities ?? []));
  for (const v3 of rules?.HostVolumes ?? []) out.push(sentence(place2("host volume", v3.Name), v3.Policy, v3.Capabilities ?? []));
  for (const [key, where] of PLAIN) if (rules?.[key]) out.push(sentence(where, rules[key].Policy, rules[key].Capabilities ?? []));
  return out;
}
function Grants({ rules }) {
  const list = grantsOf(rules);
  if (list.length === 0) return html`<p>This policy grants nothing.</p>`;
  return html`<ul class="grants">${list.map((g3) => html`<li><strong><bdi>${capital(g3.where)}</bdi></strong>: <span data-deny=${g3.deny ? "" : null}><bdi>${g3.what}</bdi></span></li>`)}</ul>`;
}

// app/pages/administration/policies.js
var COLUMNS2 = [
  { label: "Name", head: true, cell: (p3) => html`<a href=${policyHref(p3.Name)}><${Name} of=${p3.Name} /></a>` },
  { label: "Description", cell: (p3) => html`<bdi>${p3.Description}</bdi>` },
  { label: "Also applies to", cell: (p3) => html`<bdi>${appliesTo(p3.JobACL)}</bdi>` }
];
function Policies() {
  return html`<p><a class="button primary" href=${href("/ui/administration/policies/new")}>Create a policy</a></p>
    <${List} path=${at`/v1/acl/policies`} what="policies" columns=${COLUMNS2} rowKey=${(p3) => p3.Name} search=${["Name", "Description"]} topics=${["ACLPolicy"]} />`;
}

// app/pages/administration/roles.js
var COLUMNS3 = [
  { label: "Name", head: true, cell: (r3) => html`<${Name} of=${r3.Name} /><div class="small muted"><${Code} of=${r3.ID} /></div>` },
  { label: "Description", cell: (r3) => html`<bdi>${r3.Description}</bdi>` },
  { label: "Policies", cell: (r3) => (r3.Policies ?? []).map((p3) => html`<span class="tag"><a href=${policyHref(p3.Name)}><${Name} of=${p3.Name} /></a></span> `) }
];
function Roles() {
  return html`<${List} path=${at`/v1/acl/roles`} what="roles" columns=${COLUMNS3} rowKey=${(r3) => r3.ID} search=${["Name", "Description"]} topics=${["ACLRole"]} />`;
}

// app/pages/administration/rules.js
var COLUMNS4 = [
  { label: "Auth method", head: true, cell: (r3) => html`<${Name} of=${r3.AuthMethod} />` },
  { label: "Rule", kind: "wide", cell: (r3) => html`<${Rule} id=${r3.ID} />` },
  { label: "Description", cell: (r3) => html`<bdi>${r3.Description}</bdi>` }
];
function Rules() {
  const method = useStore(place).query.get("method");
  return html`<p>What a login gets if its claims match. A login that matches no rule is refused.</p>
    <${List} path=${at`/v1/acl/binding-rules`} what="binding rules" columns=${COLUMNS4} rowKey=${(r3) => r3.ID} filter=${method ? `AuthMethod == ${quote(method)}` : ""} topics=${["ACLBindingRule"]} />`;
}
function Rule({ id }) {
  const { data: r3, error } = useQuery(at`/v1/acl/binding-rule/${id}`);
  if (error) return html`<span class="muted">not known: <bdi>${error.message}</bdi></span>`;
  if (!r3) return null;
  const gets = r3.BindType === "management" ? "a management token" : html`${r3.BindType} <${Name} of=${r3.BindName} />`;
  return html`<div>${r3.Selector ? html`If <${Code} of=${r3.Selector} />: ` : "Always: "}${gets}</div>`;
}

// app/parts/time.js
function Ago({ at: at2 }) {
  const [now, setNow] = d2(Date.now());
  A2(() => {
    const timer2 = setInterval(() => setNow(Date.now()), 1e4);
    return () => clearInterval(timer2);
  }, []);
  const date = toDate(at2);
  if (!date) return "–";
  const seconds = (now - date.getTime()) / 1e3;
  const text = Math.abs(seconds) < 5 ? "now" : seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
  return html`<time datetime=${date.toISOString()} title=${localTime(date)}>${text}</time>`;
}

// app/pages/administration/create.js
var DURATION = /^(\d+(\.\d+)?(ms|s|m|h))+$/;
function CreateToken({ onClose, onCreated }) {
  const id = P2();
  const policies = useQuery(at`/v1/acl/policies`);
  const roles = useQuery(at`/v1/acl/roles`);
  const [token, setToken] = d2({ name: "", type: "client", ttl: "", global: false, policies: [], roles: [] });
  const set = (changes) => setToken((old) => ({ ...old, ...changes }));
  const client = token.type === "client";
  const fault = token.ttl && !DURATION.test(token.ttl) ? "Use a duration such as 8h or 30m." : null;
  const granted = !client || token.policies.length + token.roles.length > 0;
  async function confirm() {
    const { data } = await api.put(at`/v1/acl/token`, {
      Name: token.name,
      Type: token.type,
      Global: token.global,
      ExpirationTTL: token.ttl || void 0,
      Policies: client ? token.policies : [],
      Roles: client ? token.roles.map((ID) => ({ ID })) : []
    });
    onCreated(data);
  }
  const choose = (key, value) => (on) => setToken((old) => ({ ...old, [key]: on ? [...old[key], value] : old[key].filter((v3) => v3 !== value) }));
  return html`<${Dialog} title="Create a token" action="Create" onClose=${onClose} onConfirm=${confirm} ready=${!fault && granted}>
    <${Field} label="Name" value=${token.name} onInput=${(name2) => set({ name: name2 })} maxlength="256" />
    <div class="field"><label for=${id}>Type</label><select id=${id} value=${token.type} onChange=${(e3) => set({ type: e3.target.value })}>
      <option value="client">client: what its policies and roles grant</option><option value="management">management: everything</option></select></div>
    ${client && html`<${Choices} legend="Policies" list=${(policies.data ?? []).map((p3) => [p3.Name, p3.Name])} chosen=${token.policies} onChange=${(v3) => choose("policies", v3)} />
      <${Choices} legend="Roles" list=${(roles.data ?? []).map((r3) => [r3.ID, r3.Name])} chosen=${token.roles} onChange=${(v3) => choose("roles", v3)} />
      ${!granted && html`<p class="hint">A client token has at least one policy or role.</p>`}`}
    <${Field} label="Lifetime" value=${token.ttl} onInput=${(ttl) => set({ ttl })} error=${fault} hint="Such as 8h. Nothing: it does not expire." />
    <${Check} label="Valid in all regions" checked=${token.global} onChange=${(global) => set({ global })} />
  <//>`;
}
function Choices({ legend, list, chosen, onChange }) {
  if (list.length === 0) return null;
  return html`<fieldset class="choice-list"><legend>${legend}</legend>
    ${list.map(([value, label]) => html`<${Check} key=${value} label=${html`<${Name} of=${label} />`} checked=${chosen.includes(value)} onChange=${onChange(value)} />`)}</fieldset>`;
}

// app/pages/administration/tokens.js
var FACETS = [
  { key: "type", label: "Type", options: ["client", "management"].map((t4) => ({ value: t4, label: t4, filter: `Type == "${t4}"` })) },
  { key: "scope", label: "Scope", options: [{ value: "local", label: "this region", filter: "Global == false" }, { value: "global", label: "all regions", filter: "Global == true" }] }
];
var names = (list, to) => (list ?? []).map((n3) => html`<span class="tag">${to ? html`<a href=${to(n3)}><${Name} of=${n3} /></a>` : html`<${Name} of=${n3} />`}</span> `);
function Tokens() {
  const [created, setCreated] = d2(null);
  const columns3 = [
    { label: "Name", head: true, cell: (t4) => html`<${Name} of=${t4.Name || "without a name"} /><div class="small muted"><${Code} of=${t4.AccessorID} /></div>` },
    { label: "Type", kind: "narrow", cell: (t4) => `${t4.Type}${t4.Global ? ", all regions" : ""}` },
    { label: "Policies", cell: (t4) => t4.Type === "management" ? "everything" : names(t4.Policies, policyHref) },
    { label: "Roles", cell: (t4) => names((t4.Roles ?? []).map((r3) => r3.Name || shortID(r3.ID))) },
    { label: "Created", kind: "narrow", cell: (t4) => html`<${Ago} at=${t4.CreateTime} />` },
    { label: "Expires", kind: "narrow", cell: (t4) => t4.ExpirationTime ? html`<${Ago} at=${t4.ExpirationTime} />` : "never" },
    { label: "Actions", kind: "narrow", cell: (t4) => html`<${DialogButton} label="Delete" danger dialog=${(close) => html`<${Delete} token=${t4} onClose=${close} />`} />` }
  ];
  return html`
    ${created && html`<${Secret} token=${created} onDone=${() => setCreated(null)} />`}
    <p><${DialogButton} label="Create a token" primary dialog=${(close) => html`<${CreateToken} onClose=${close} onCreated=${setCreated} />`} /></p>
    <${List} path=${at`/v1/acl/tokens`} what="tokens" columns=${columns3} rowKey=${(t4) => t4.AccessorID} search=${["Name", "AccessorID"]} facets=${FACETS} topics=${["ACLToken"]} />`;
}
function Secret({ token, onDone }) {
  const [copied, setCopied] = d2(false);
  const copy = () => navigator.clipboard.writeText(token.SecretID).then(() => setCopied(true), () => setCopied(false));
  return html`<${Notice} tone="ok" title="The token was created." actions=${html`
      ${navigator.clipboard && html`<button type="button" class="button" onClick=${copy}>${copied ? "Copied" : "Copy the secret"}</button>`}
      <button type="button" class="button" onClick=${onDone}>I have kept it</button>`}>
    Keep its secret now: it cannot be shown again.<code class="secret">${token.SecretID}</code>
    Accessor ID <${Code} of=${token.AccessorID} />
  <//>`;
}
function Delete({ token, onClose }) {
  const own = session.value.self?.AccessorID === token.AccessorID;
  const confirm = () => api.del(at`/v1/acl/token/${token.AccessorID}`);
  return html`<${Dialog} title="Delete the token?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>Whoever uses token <strong><${Name} of=${token.Name || shortID(token.AccessorID)} /></strong> is refused from then on.</p>
    ${own && html`<${Notice} tone="warn" title="This is your own token.">This window is signed out.<//>`}
  <//>`;
}

// app/pages/administration.js
var TABS = { tokens: ["Tokens", Tokens], policies: ["Policies", Policies], roles: ["Roles", Roles], "auth-methods": ["Auth methods", Methods], "binding-rules": ["Binding rules", Rules] };
function Administration({ params }) {
  const { state } = useStore(session);
  const tab = params.tab in TABS ? params.tab : "tokens";
  const link = (name2) => href(`/ui/administration/${name2}`);
  const [, Tab] = TABS[tab];
  const tabs = html`<${Tabs} label="Parts of access control" tabs=${Object.entries(TABS).map(([name2, [label]]) => ({ href: link(name2), label }))} current=${link(tab)} />`;
  return html`<${Page} title="Access control" tabs=${tabs}>
    ${state === "off" ? html`<${Notice} tone="warn" title="This cluster has no access control.">Everyone who reaches the agent may do everything. <code>acl { enabled = true }</code> in the configuration of the servers turns it on.<//>` : html`<${Tab} />`}
  <//>`;
}

// app/pages/allocation/directory.js
var SHOWN = 500;
function Directory({ alloc: a3, path }) {
  const [text, setText] = d2("");
  const { data, error, refresh } = useQuery(at`/v1/client/fs/ls/${a3.ID}`, { params: { namespace: a3.Namespace, path } });
  if (!data) return error ? html`<${Failure} error=${error} what="this directory" />` : html`<${Loading} />`;
  const found = data.filter((f3) => f3.Name.includes(text)).sort((x2, y3) => y3.IsDir - x2.IsDir || (x2.Name < y3.Name ? -1 : 1));
  const rows = found.slice(0, SHOWN);
  return html`
    <div class="list-tools" role="search" aria-label="Filter files"><${Field} label="Name contains" value=${text} onInput=${setText} />
      <button type="button" class="button" onClick=${refresh}>Read again</button></div>
    <${Failure} error=${error} what="this directory" />
    ${rows.length === 0 && html`<${Empty}><p>${data.length === 0 ? "The directory is empty." : "No name contains the text."}</p><//>`}
    ${rows.length > 0 && html`<${Table} caption="Files" rows=${rows} rowKey=${(f3) => f3.Name} columns=${columns(a3, path)} />`}
    ${found.length > SHOWN && html`<p class="muted small">${count(SHOWN)} of ${count(found.length)} entries. Type a part of the name to narrow the list.</p>`}`;
}
var columns = (a3, path) => [
  { label: "Name", head: true, cell: (f3) => html`<a href=${fileHref(a3.ID, join(path, f3.Name))}><bdi class="name">${visible(f3.Name)}${f3.IsDir && "/"}</bdi></a>${f3.FileMode.startsWith("L") && html` <span class="muted small"><${Icon} name="link" />symbolic link</span>`}` },
  { label: "Size", kind: "number", cell: (f3) => f3.IsDir ? "" : bytes(f3.Size) },
  { label: "Mode", kind: "narrow", cell: (f3) => html`<code>${f3.FileMode}</code>` },
  { label: "Changed", kind: "narrow", cell: (f3) => html`<${Ago} at=${f3.ModTime} />` }
];
var join = (path, name2) => `${path.replace(/\/+$/, "")}/${name2}`;

// app/pages/allocation/file.js
var PART = 64 << 10;
var DOWNLOAD = 256 << 20;
function File({ alloc: a3, path, info, offset }) {
  const { part, error } = usePart(a3, path, offset);
  return html`
    <${Facts} rows=${[["Size", bytes(info.Size)], ["Mode", html`<code>${info.FileMode}</code>`], ["Changed", html`<${Ago} at=${info.ModTime} />`], ["Type", info.ContentType]]} />
    <div class="list-tools file-tools">
      <${Parts} alloc=${a3.ID} path=${path} offset=${offset} size=${info.Size} />
      <${Download} alloc=${a3} path=${path} size=${info.Size} />
    </div>
    <${Failure} error=${error} what="this file" />
    ${!part && !error && html`<${Loading} />`}
    ${part && html`<${Part} bytes=${part} />`}`;
}
function usePart(a3, path, offset) {
  const [result, setResult] = d2({});
  A2(() => {
    const control = new AbortController();
    setResult({});
    send("GET", at`/v1/client/fs/readat/${a3.ID}`, { params: { namespace: a3.Namespace, path, offset, limit: PART }, signal: control.signal }).then((r3) => r3.arrayBuffer()).then((b2) => setResult({ part: new Uint8Array(b2) }), (error) => control.signal.aborted || setResult({ error }));
    return () => control.abort();
  }, [a3.ID, path, offset]);
  return result;
}
function Part({ bytes: part }) {
  if (part.length === 0) return html`<p class="muted">Nothing is here: the file is empty, or it has become shorter.</p>`;
  if (part.includes(0)) return html`<${Notice}>This part of the file is not text. It can be downloaded.<//>`;
  const text = new TextDecoder().decode(part);
  return html`<pre class="file" tabindex="0" role="region" aria-label="Text of the file"><bdi>${text.split(/\r?\n/).map(visible).join("\n")}</bdi></pre>`;
}
function Parts({ alloc, path, offset, size }) {
  if (size <= PART && offset === 0) return null;
  const last4 = Math.max(0, Math.floor((size - 1) / PART) * PART);
  const links = [["First", 0, offset > 0], ["Previous", Math.max(0, offset - PART), offset > 0], ["Next", offset + PART, offset + PART < size], ["Last", last4, offset < last4]];
  return html`<nav class="actions" aria-label="Parts of the file">
    ${links.filter(([, , usable]) => usable).map(([label, to]) => html`<a class="button" key=${label} href=${fileHref(alloc, path, to)}>${label}</a>`)}
    <span class="muted small">bytes ${offset} to ${Math.min(size, offset + PART)} of ${size}</span></nav>`;
}
function Download({ alloc: a3, path, size }) {
  const [state, setState] = d2({});
  if (size > DOWNLOAD) return html`<p class="muted small">Files above ${bytes(DOWNLOAD)} are downloaded with <code>nomad alloc fs</code>.</p>`;
  async function download() {
    setState({ busy: true });
    try {
      save(await contents(a3, path), path.slice(path.lastIndexOf("/") + 1));
      setState({});
    } catch (error) {
      setState({ error });
    }
  }
  return html`<button type="button" class="button" disabled=${state.busy} onClick=${download}>${state.busy ? "Downloading …" : "Download"}</button>
    <${Failure} error=${state.error} what="this file" />`;
}
async function contents(a3, path) {
  const response = await send("GET", at`/v1/client/fs/readat/${a3.ID}`, { params: { namespace: a3.Namespace, path, offset: 0, limit: DOWNLOAD } });
  return new Blob([await response.arrayBuffer()], { type: "application/octet-stream" });
}
function save(blob, name2) {
  const url2 = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url2;
  link.download = name2;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url2), 6e4);
}

// app/pages/allocation/files.js
function Files({ alloc: a3, query }) {
  const path = query.get("path") || "/";
  const params = { namespace: a3.Namespace, path };
  const { data: info, error } = useQuery(at`/v1/client/fs/stat/${a3.ID}`, { params });
  return html`
    <${Crumbs} alloc=${a3.ID} path=${path} />
    <${Failure} error=${error} what="the files" />
    ${!info && !error && html`<${Loading} />`}
    ${info?.IsDir && html`<${Directory} key=${path} alloc=${a3} path=${path} />`}
    ${info && !info.IsDir && html`<${File} key=${path} alloc=${a3} path=${path} info=${info} offset=${offsetOf(query)} />`}`;
}
function offsetOf(query) {
  const n3 = Number(query.get("offset") ?? 0);
  return Number.isSafeInteger(n3) && n3 > 0 ? n3 : 0;
}
function Crumbs({ alloc, path }) {
  const names2 = path.split("/").filter(Boolean);
  return html`<nav class="crumbs path" aria-label="Path"><ol>
    <li><a href=${fileHref(alloc, "/")}>Root</a></li>
    ${names2.map((name2, i3) => html`<li><a href=${fileHref(alloc, `/${names2.slice(0, i3 + 1).join("/")}`)} aria-current=${i3 === names2.length - 1 ? "page" : null}><bdi class="name">${visible(name2)}</bdi></a></li>`)}
  </ol></nav>`;
}

// app/logs/source.js
var FIRST = 64 << 10;
var LEAST = 1 << 10;
var MOST = 1 << 20;
var LogSource = class {
  #at = null;
  // {file, offset}: the position after the last byte
  #want = FIRST;
  #decoder = new TextDecoder();
  /** @param {{alloc: string, namespace: string, task: string, type: 'stdout'|'stderr'}} log */
  constructor(log) {
    this.log = log;
  }
  /**
   * Reads the text that is new.
   * @returns {Promise<{text: string, skipped: boolean}>} skipped is true if text before it was left out
   */
  async read(signal) {
    for (let want = this.#want; ; want = Math.min(want * 8, MOST)) {
      const frames = await this.#end(want, signal);
      const found = newer(frames, this.#at);
      if (found.joins || want === MOST || this.#at === null) return this.#take(frames, found);
    }
  }
  #take(frames, { parts, joins }) {
    if (!joins) this.#decoder = new TextDecoder();
    const text = parts.map((p3) => this.#decoder.decode(p3, { stream: true })).join("");
    const size = parts.reduce((n3, p3) => n3 + p3.length, 0);
    this.#want = Math.min(MOST, Math.max(LEAST, 2 * size));
    if (frames.length > 0) this.#at = frames.at(-1).end;
    return { text, skipped: !joins };
  }
  /** Returns the last bytes of the log as frames: their bytes, and the positions before and after. */
  async #end(size, signal) {
    const { alloc, namespace, task, type } = this.log;
    const response = await send("GET", at`/v1/client/fs/logs/${alloc}`, { params: { namespace, task, type, origin: "end", offset: size }, signal });
    return objects(await response.text()).filter((f3) => f3.Data).map((f3) => {
      const bytes2 = Uint8Array.from(atob(f3.Data), (c3) => c3.charCodeAt(0));
      const file = Number(f3.File.slice(f3.File.lastIndexOf(".") + 1));
      return { bytes: bytes2, start: { file, offset: f3.Offset - bytes2.length }, end: { file, offset: f3.Offset } };
    });
  }
};
var compare = (a3, b2) => a3.file - b2.file || a3.offset - b2.offset;
function newer(frames, position2) {
  if (frames.length === 0) return { parts: [], joins: true };
  const first = frames[0].start;
  const replaced = position2 !== null && compare(frames.at(-1).end, position2) < 0;
  if (position2 === null || replaced) return { parts: frames.map((f3) => f3.bytes), joins: replaced || first.file === 0 && first.offset === 0 };
  const parts = frames.filter((f3) => compare(f3.end, position2) > 0).map((f3) => f3.start.file === position2.file ? f3.bytes.subarray(Math.max(0, position2.offset - f3.start.offset)) : f3.bytes);
  return { parts, joins: compare(first, position2) <= 0 };
}
function objects(text) {
  const out = [];
  let depth = 0;
  let start = 0;
  for (const m3 of text.matchAll(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}]/g)) {
    if (m3[0] === "{" && depth++ === 0) start = m3.index;
    if (m3[0] === "}" && --depth === 0) out.push(JSON.parse(text.slice(start, m3.index + 1)));
  }
  return out;
}

// app/logs/feed.js
var KEPT = 2e3;
var LONGEST = 4096;
var EVERY = 1e3;
var ROUNDS = 10;
var AT_ONCE = 2;
var Feed = class {
  /** @type {Line[]} */
  lines = [];
  /** Changes when lines or errors do. */
  version = new Store(0);
  /** The errors of the last reads, by key. */
  errors = /* @__PURE__ */ new Map();
  #readers = /* @__PURE__ */ new Map();
  // by key: {source, open, done, wait}
  #logs = [];
  #next = 0;
  /** Sets the logs that are read. Positions of logs that were read before are kept. @param {Log[]} logs */
  show(logs) {
    this.#logs = logs;
  }
  clear() {
    this.lines = [];
    for (const r3 of this.#readers.values()) r3.open = null;
    this.#changed();
  }
  /** Reads until signal is aborted. */
  async run(signal) {
    while (!signal.aborted) {
      if (!document.hidden) await this.#round(signal);
      await new Promise((done2) => {
        setTimeout(done2, EVERY);
      });
    }
  }
  async #round(signal) {
    const waiting = [...this.#logs];
    const work = async () => {
      for (let log = waiting.shift(); log && !signal.aborted; log = waiting.shift()) await this.#read(log, signal);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
  }
  async #read(log, signal) {
    const reader = this.#readers.get(log.key) ?? { source: new LogSource(log), open: null, done: false, wait: 0 };
    this.#readers.set(log.key, reader);
    if (reader.done && log.ended || reader.wait-- > 0) return;
    try {
      const { text, skipped } = await reader.source.read(signal);
      if (signal.aborted) return;
      if (skipped) this.#skip(log, reader);
      this.#add(log, reader, skipped ? text.slice(text.indexOf("\n") + 1) : text);
      reader.done = log.ended && text === "";
      if (this.errors.delete(log.key) || text !== "") this.#changed();
    } catch (err) {
      if (signal.aborted) return;
      reader.done = log.ended;
      reader.wait = ROUNDS;
      this.errors.set(log.key, err);
      this.#changed();
    }
  }
  #skip(log, reader) {
    reader.open = null;
    this.#push({ key: log.key, text: "Earlier lines are left out.", mark: true });
  }
  /** Adds text. The last line stays open until its end is read. */
  #add(log, reader, text) {
    const parts = text.split(/\r?\n/);
    parts.forEach((part, i3) => {
      for (let rest = part; rest !== ""; rest = rest.slice(LONGEST)) this.#append(log, reader, rest.slice(0, LONGEST));
      if (i3 === parts.length - 1) return;
      if (part === "" && !reader.open) this.#push({ key: log.key, text: "", mark: false });
      reader.open = null;
    });
  }
  #append(log, reader, text) {
    const open = reader.open;
    if (open && open.text.length + text.length <= LONGEST) {
      open.text += text;
      open.view = null;
    } else {
      reader.open = this.#push({ key: log.key, text, mark: false });
    }
  }
  #push(line) {
    const added = { id: this.#next++, ...line };
    this.lines.push(added);
    if (this.lines.length > KEPT + 200) this.lines.splice(0, this.lines.length - KEPT);
    return added;
  }
  #changed() {
    if (this.lines.length > KEPT) this.lines.splice(0, this.lines.length - KEPT);
    this.version.set(this.version.value + 1);
  }
};

// app/logs/viewer.js
var TASKS = 8;
var FIRST2 = 4;
var TONES = ["info", "ok", "warn", "idle"];
var TYPES = { stdout: "out", stderr: "err" };
function Logs({ sources, chosen }) {
  const [feed] = d2(() => new Feed());
  const [picked, setPicked] = d2(null);
  const [type, setType] = d2("");
  const [paused, setPaused] = d2(false);
  const [follow2, setFollow] = d2(true);
  useStore(feed.version);
  const keys = picked ?? (chosen ?? sources.slice(0, FIRST2).map((s3) => s3.key));
  const toned = sources.map((s3, i3) => ({ ...s3, tone: TONES[i3 % TONES.length] }));
  const logs = logsOf(toned.filter((s3) => keys.includes(s3.key)), type);
  const id = logs.map((l3) => `${l3.key} ${l3.ended}`).join("\n");
  A2(() => feed.show(logs), [id]);
  A2(() => {
    if (paused) return void 0;
    const control = new AbortController();
    feed.run(control.signal);
    return () => control.abort();
  }, [paused]);
  if (sources.length === 0) return html`<${Empty}><p>No task has started yet.</p><//>`;
  return html`
    <${Choice2} sources=${toned} keys=${keys} onChange=${setPicked} />
    <div class="list-tools">
      <${Types} value=${type} onChange=${setType} />
      <button type="button" class="button" aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? "Continue" : "Pause"}</button>
      <button type="button" class="button" onClick=${() => feed.clear()}>Clear</button>
      <${Check} label="Scroll to new lines" checked=${follow2} onChange=${setFollow} />
    </div>
    <${Errors} feed=${feed} logs=${logs} />
    <${Lines} feed=${feed} logs=${logs} follow=${follow2} setFollow=${setFollow} />
    <p class="muted small">${paused ? "Paused: lines written meanwhile are read later." : "Read every second."} The last ${count(KEPT)} lines are kept. Lines of different tasks are in the order in which they were read.</p>`;
}
function logsOf(sources, type) {
  return sources.flatMap((s3) => Object.keys(TYPES).filter((t4) => type === "" || t4 === type).map((t4) => ({ ...s3, type: t4, key: `${s3.key} ${t4}` })));
}
function Choice2({ sources, keys, onChange }) {
  const full = keys.length >= TASKS;
  const toggle = (key) => onChange(keys.includes(key) ? keys.filter((k3) => k3 !== key) : full ? keys : [...keys, key]);
  return html`<fieldset class="log-choice"><legend>Tasks${full && ` (at most ${TASKS} at once)`}</legend>
    ${sources.map((s3) => html`<label key=${s3.key} data-tone=${s3.tone}><input type="checkbox" checked=${keys.includes(s3.key)} disabled=${full && !keys.includes(s3.key)} onChange=${() => toggle(s3.key)} />
      <span class="log-name"><${Name} of=${s3.label} /></span></label>`)}
  </fieldset>`;
}
function Types({ value, onChange }) {
  return html`<div class="field"><label for="log-type">Output</label><select id="log-type" value=${value} onChange=${(e3) => onChange(e3.target.value)}>
    <option value="">stdout and stderr</option><option value="stdout">stdout</option><option value="stderr">stderr</option></select></div>`;
}
function Errors({ feed, logs }) {
  const found = /* @__PURE__ */ new Map();
  for (const log of logs) {
    const err = feed.errors.get(log.key);
    if (err) found.set(err.message, err);
  }
  return [...found.values()].map((err) => html`<${Failure} key=${err.message} error=${err} what="the logs" />`);
}
var SEQUENCES = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))/g;
function Lines({ feed, logs, follow: follow2, setFollow }) {
  const box = T2(null);
  const shown = new Map(logs.map((l3) => [l3.key, l3]));
  const lines2 = feed.lines.filter((l3) => shown.has(l3.key));
  F2(() => {
    if (follow2) box.current.scrollTop = box.current.scrollHeight;
  });
  function scrolled({ target: t4 }) {
    const end = t4.scrollHeight - t4.scrollTop - t4.clientHeight < 8;
    if (end !== follow2) setFollow(end);
  }
  return html`<div class="log" ref=${box} tabindex="0" role="region" aria-label=${`Log, ${plural(lines2.length, "line")}`} onScroll=${scrolled}>
    ${lines2.length === 0 && html`<p class="muted">No lines yet.</p>`}
    ${lines2.map((line) => line.view ??= view(line, shown.get(line.key)))}
  </div>`;
}
function view(line, log) {
  return html`<div key=${line.id} class=${line.mark ? "log-line muted" : "log-line"}><span class="log-name" data-tone=${log.tone}><${Name} of=${log.label} /> <span class="log-type">${TYPES[log.type]}</span></span> <bdi>${visible(line.text.replace(SEQUENCES, ""))}</bdi></div>`;
}

// app/pages/allocation/logs.js
function AllocationLogs({ alloc: a3, task }) {
  const started = Object.entries(a3.TaskStates ?? {}).filter(([, state]) => toDate(state.StartedAt)).sort(([x2], [y3]) => x2 < y3 ? -1 : 1);
  const sources = started.map(([name2, state]) => ({ key: name2, label: name2, alloc: a3.ID, namespace: a3.Namespace, task: name2, ended: state.State === "dead" }));
  return html`<${Logs} sources=${sources} chosen=${task ? [task] : void 0} />`;
}

// app/pages/allocation/denials.js
function denialsOf(events) {
  const found = /* @__PURE__ */ new Map();
  for (const event of events) {
    for (const d3 of parse(event.Details?.denials)) found.set(`${d3.Layer} ${d3.Rule} ${d3.Path ?? ""} ${d3.Port ?? ""}`, d3);
  }
  return [...found.values()];
}
function parse(text) {
  try {
    const list = JSON.parse(text ?? "[]");
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}
function mendOf(denials) {
  const entries = [...new Set(denials.map((d3) => d3.Unveil).filter(Boolean))].sort();
  return entries.length > 0 ? `unveil = [${entries.map((e3) => JSON.stringify(e3)).join(", ")}]` : "";
}
function Denials({ events }) {
  const denials = denialsOf(events);
  if (denials.length === 0) return null;
  const mend = mendOf(denials);
  return html`<${Notice} tone="warn" title="The sandbox denied accesses of this task.">
    <ul class="reasons">${denials.map((d3) => html`<li><${Code} of=${d3.Rule} /> ${d3.Path && html`on <${Code} of=${d3.Path} />`} ${d3.Port && `on port ${d3.Port}`} ${d3.Hint && html`<span>(<${Name} of=${d3.Hint} />)</span>`}</li>`)}</ul>
    ${mend && html`<p>If the task needs them, add to its <code>config</code>:</p><pre tabindex="0" role="region" aria-label="Line for the job"><bdi>${mend}</bdi></pre>`}
  <//>`;
}

// app/pages/allocation/usage.js
var EVERY2 = 5e3;
function useStats(alloc) {
  const running2 = alloc.DesiredStatus === "run" && Object.values(alloc.TaskStates ?? {}).some((s3) => s3.State === "running");
  const { data, refresh } = useQuery(!running2 ? null : at`/v1/client/allocation/${alloc.ID}/stats`, { params: { namespace: alloc.Namespace } });
  A2(() => {
    if (!running2) return void 0;
    const timer2 = setInterval(() => {
      if (!document.hidden) refresh();
    }, EVERY2);
    return () => clearInterval(timer2);
  }, [refresh, running2]);
  return running2 ? data : null;
}
function Use({ reserved, used }) {
  if (!reserved) return null;
  const memory = (reserved.Memory?.MemoryMB ?? 0) * 1024 * 1024;
  const limit = Math.max(memory, (reserved.Memory?.MemoryMaxMB ?? 0) * 1024 * 1024);
  return html`<div class="use">
    <${Meter} label="CPU" used=${used?.CpuStats?.TotalTicks} of=${reserved.Cpu?.CpuShares ?? 0} text=${(n3) => `${count(Math.round(n3))} MHz`} />
    <${Meter} label="Memory" used=${resident(used?.MemoryStats)} of=${memory} text=${bytes} more=${limit > memory ? `, at most ${bytes(limit)}` : ""} />
  </div>`;
}
function resident(stats) {
  if (!stats) return void 0;
  return stats.RSS === 0 && !(stats.Measured ?? []).includes("RSS") ? stats.Usage : stats.RSS;
}
function Meter({ label, used, of, text, more = "" }) {
  const id = P2();
  const share3 = used === void 0 ? null : percent(used, of);
  return html`<div>
    <div class="use-text"><span id=${id}>${label}</span> <span class="muted small">${share3 === null ? `${text(of)} reserved${more}` : `${text(used)} of ${text(of)} reserved (${share3} %)${more}`}</span></div>
    ${share3 !== null && html`<div class="bar" role="meter" aria-labelledby=${id} aria-valuemin="0" aria-valuemax=${Math.max(100, share3)} aria-valuenow=${share3}>
      <span data-tone=${share3 > 100 ? "warn" : "ok"} data-pattern=${share3 > 100 ? "striped" : null} style=${{ width: `${Math.min(100, share3)}%` }}></span></div>`}
  </div>`;
}

// app/pages/allocation/overview.js
function Overview({ alloc }) {
  const stats = useStats(alloc);
  const tasks = Object.entries(alloc.TaskStates ?? {}).sort(([x2], [y3]) => x2 < y3 ? -1 : 1);
  return html`<${About} alloc=${alloc} />
    ${tasks.map(([name2, state]) => html`<${Task} key=${name2} alloc=${alloc} name=${name2} state=${state} stats=${stats?.Tasks?.[name2]} />`)}`;
}
function About({ alloc: a3 }) {
  const link = (id, to) => id ? html`<a href=${to(id)}><${Code} of=${shortID(id)} /></a>` : null;
  return html`<${Facts} rows=${[
    ["ID", html`<${Code} of=${a3.ID} />`],
    ["Group", html`<${Name} of=${a3.TaskGroup} />`],
    ["Job version", a3.Job && String(a3.Job.Version)],
    ["Node", html`<a href=${nodeHref(a3.NodeID)}><${Name} of=${a3.NodeName || shortID(a3.NodeID)} /></a>`],
    ["Namespace", html`<${Name} of=${a3.Namespace} />`],
    ["Desired", a3.DesiredStatus],
    ["Reason", a3.ClientDescription || a3.DesiredDescription],
    ["Created", html`<${Ago} at=${a3.CreateTime} />`],
    ["Changed", html`<${Ago} at=${a3.ModifyTime} />`],
    ["Evaluation", link(a3.EvalID, evalHref)],
    ["Replaces", link(a3.PreviousAllocation, allocHref)],
    ["Replaced by", link(a3.NextAllocation, allocHref)],
    ["Isolation", a3.Isolation && html`<${Name} of=${[...new Set(Object.values(a3.Isolation))].join(", ")} /> or higher`]
  ]} />`;
}
function Task({ alloc: a3, name: name2, state, stats }) {
  const events = [...state.Events ?? []].reverse();
  const running2 = state.State === "running";
  return html`<${Section} title=${html`Task <${Name} of=${name2} />`} actions=${html`<${Status} of=${state.Failed ? "failed" : state.State} /><span class="muted small">${plural(state.Restarts, "restart")}</span>
    ${running2 && html`<a class="button" href=${execHref(a3.JobID, a3.Namespace, a3.TaskGroup, name2, a3.ID)}>Terminal</a>`}`}>
    <${Denials} events=${events} />
    <${Use} reserved=${a3.AllocatedResources?.Tasks?.[name2]} used=${running2 ? stats?.ResourceUsage : null} />
    <ol class="events">${events.map((e3) => html`<li key=${e3.Time}><span class="event-time muted"><${Ago} at=${e3.Time} /></span><strong>${e3.Type}</strong><bdi>${e3.DisplayMessage || e3.Message}</bdi></li>`)}</ol>
  <//>`;
}

// app/pages/allocation/sandbox.js
function Sandboxes({ alloc: a3, ended }) {
  const running2 = Object.entries(a3.TaskStates ?? {}).filter(([, s3]) => s3.State === "running").map(([name2]) => name2).join("\n");
  const live2 = running2 !== "" && a3.DesiredStatus === "run";
  const { data, error, refresh } = useQuery(!live2 ? null : at`/v1/client/allocation/${a3.ID}/sandbox`, { params: { namespace: a3.Namespace } });
  const restarts = Object.values(a3.TaskStates ?? {}).map((s3) => s3.Restarts).join(" ");
  A2(() => {
    if (data) refresh();
  }, [running2, restarts]);
  const states = Object.entries(a3.TaskStates ?? {}).sort(([x2], [y3]) => x2 < y3 ? -1 : 1);
  return html`
    ${error?.status === 400 ? html`<${Notice}>${error.message}<//>` : html`<${Failure} error=${error} what="the sandboxes" />`}
    ${!live2 && html`<${Empty}><p>${ended ? "The allocation has ended." : a3.DesiredStatus === "run" ? "No task is running." : "The allocation is being stopped."} Only running tasks have a live sandbox.</p><//>`}
    ${live2 && !data && !error && html`<${Loading} />`}
    ${states.map(([name2, state]) => html`<${Section} key=${name2} title=${html`Task <${Name} of=${name2} />`} actions=${html`<button type="button" class="button" onClick=${refresh}>Read again</button>`}>
      <${Denials} events=${state.Events ?? []} />
      ${live2 && data?.[name2] && html`<${Sandbox} of=${data[name2]} />`}
      ${data && running2.split("\n").includes(name2) && !data[name2] && html`<p class="muted">The driver of this task makes no sandbox.</p>`}
    <//>`)}`;
}
function Sandbox({ of: s3 }) {
  const differs2 = s3.Layers.filter((l3) => !l3.Match);
  const isUnreported = (l3) => l3.Match && l3.Live === "";
  const compared = s3.Layers.filter((l3) => !isUnreported(l3));
  const unreported = s3.Layers.filter(isUnreported);
  return html`
    ${differs2.length > 0 && html`<${Notice} tone="bad" title="The live sandbox is weaker than declared.">${differs2.map((l3, i3) => html`${i3 > 0 && ", "}<${Name} of=${l3.Name} />`)}<//>`}
    <${Facts} rows=${[["Process", String(s3.PID)], ["Isolation", html`<${Name} of=${s3.Level} />`], ["Denials explained", s3.Explain && html`<${Name} of=${s3.Explain} />`]]} />
    <div class="panel-gap"><${Table} caption="Layers of the sandbox" rows=${compared} rowKey=${keyOf} columns=${[...COLUMNS5, LIVE]} /></div>
    ${unreported.length > 0 && html`<details class="panel-gap"><summary>${plural(unreported.length, "rule")} as declared: the kernel does not report the rules of a live process</summary>
      <${Table} caption="Rules that the kernel does not report" rows=${unreported} rowKey=${keyOf} columns=${COLUMNS5} /></details>`}`;
}
var keyOf = (l3) => `${l3.Name} ${l3.Declared}`;
var COLUMNS5 = [
  { label: "Layer", head: true, cell: (l3) => html`<${Code} of=${l3.Name} />` },
  { label: "State", kind: "narrow", cell: (l3) => html`<${Verdict} layer=${l3} />` },
  { label: "Declared", cell: (l3) => html`<${Text} of=${l3.Declared} />` }
];
var LIVE = { label: "Live", cell: (l3) => l3.Live === "" ? html`<span class="muted">nothing</span>` : l3.Live === l3.Declared ? html`<span class="muted">the same</span>` : html`<${Text} of=${l3.Live} />` };
var Text = ({ of }) => html`<code class="name layer-text"><bdi>${of}</bdi></code>`;
function Verdict({ layer: l3 }) {
  if (!l3.Match) return html`<${Status} of="weaker" label="Weaker" tone="bad" icon="bad" />`;
  if (l3.Live === "") return html`<${Status} of="declared" label="Declared" tone="idle" icon="shield" />`;
  return l3.Stricter ? html`<${Status} of="stricter" label="Stricter" tone="ok" icon="lock" />` : html`<${Status} of="matches" label="As declared" tone="ok" icon="ok" />`;
}

// app/pages/allocation.js
var ENDED = ["complete", "failed", "lost"];
var TABS2 = { "": ["Overview", Overview], logs: ["Logs", AllocationLogs], fs: ["Files", Files], sandbox: ["Sandbox", Sandboxes] };
function Allocation({ params, query }) {
  const { data: a3, error, refresh } = useQuery(at`/v1/allocation/${params.id}`, { topics: [`Allocation:${params.id}`], namespace: "*" });
  const crumbs = a3 ? [{ href: "/ui/jobs", label: "Jobs" }, { href: jobHref(a3.JobID, a3.Namespace), label: a3.JobID }, { href: jobHref(a3.JobID, a3.Namespace, "allocations"), label: "Allocations" }] : [];
  const asked = params.task ? "logs" : params.tab ?? "";
  const current = Object.hasOwn(TABS2, asked) ? asked : "";
  const [, Tab] = TABS2[current];
  const links = Object.entries(TABS2).map(([tab, [label]]) => ({ href: allocHref(params.id, tab), label }));
  const ended = a3 && ENDED.includes(a3.ClientStatus);
  return html`<${Page} title=${a3?.Name ?? shortID(params.id)} crumbs=${crumbs} status=${a3 && html`<${Status} of=${a3.ClientStatus} />`}
    tabs=${html`<${Tabs} label="Parts of the allocation" tabs=${links} current=${allocHref(params.id, current)} />`}
    actions=${a3 && !ended && html`<${Actions} alloc=${a3} refresh=${refresh} />`}>
    <${Failure} error=${error} what="this allocation" />
    ${!a3 && !error && html`<${Loading} />`}
    ${a3 && current !== asked && html`<${Part2} alloc=${a3} name=${asked} />`}
    ${a3 && html`<${Tab} alloc=${a3} ended=${ended} task=${params.task} query=${query} />`}
  <//>`;
}
function Part2({ alloc: a3, name: name2 }) {
  const group = a3.Job?.TaskGroups?.find((g3) => g3.Name === a3.TaskGroup);
  if (!group?.Tasks?.some((t4) => t4.Name === name2)) return html`<${Notice} tone="warn">The allocation has no task and no page <${Name} of=${name2} />.<//>`;
  return html`<${Notice}>The task <${Name} of=${name2} /> is shown on the page of its allocation. <a href=${allocHref(a3.ID, `${encodeURIComponent(name2)}/logs`)}>Logs of the task</a><//>`;
}
function Actions({ alloc: a3, refresh }) {
  const params = { namespace: a3.Namespace };
  const act = (path, body) => async () => {
    await api.put(path, body, params);
    await refresh();
  };
  return html`
    <${DialogButton} label="Restart" dialog=${(close) => html`<${Dialog} title="Restart the tasks?" action="Restart" onClose=${close} onConfirm=${act(at`/v1/client/allocation/${a3.ID}/restart`, {})}>
      <p>The running tasks are restarted on their node. Nothing is placed again.</p><//>`} />
    <${DialogButton} label="Stop" danger dialog=${(close) => html`<${Dialog} title="Stop the allocation?" action="Stop" danger onClose=${close} onConfirm=${act(at`/v1/allocation/${a3.ID}/stop`, void 0)}>
      <p>The allocation is stopped, and a new one is placed, perhaps on another node.</p><//>`} />`;
}

// app/parts/allocations.js
var ALLOC_FACETS = [{
  key: "status",
  label: "Status",
  options: ["running", "pending", "failed", "lost", "unknown", "complete"].map((s3) => ({ value: s3, label: s3[0].toUpperCase() + s3.slice(1), filter: `ClientStatus == "${s3}"` }))
}];
function allocColumns(without = []) {
  return [
    { label: "ID", head: true, cell: (a3) => html`<a href=${allocHref(a3.ID)}><${Code} of=${shortID(a3.ID)} /></a>` },
    { key: "job", label: "Job", cell: (a3) => html`<a href=${jobHref(a3.JobID, a3.Namespace)}><${Name} of=${a3.JobID} /></a>` },
    { label: "Group", cell: (a3) => html`<${Name} of=${a3.TaskGroup} /><span class="muted">${indexOf(a3)}</span>` },
    { label: "Status", kind: "narrow", cell: (a3) => html`<${Status} of=${a3.ClientStatus} />` },
    { label: "Detail", cell: (a3) => html`<span class="muted small">${detailOf(a3)}</span>` },
    { label: "Version", kind: "number", cell: (a3) => a3.JobVersion },
    { key: "node", label: "Node", cell: (a3) => html`<a href=${nodeHref(a3.NodeID)}><${Name} of=${a3.NodeName || shortID(a3.NodeID)} /></a>` },
    { label: "Created", kind: "narrow", cell: (a3) => html`<${Ago} at=${a3.CreateTime} />` }
  ].filter((c3) => !without.includes(c3.key));
}
var indexOf = (a3) => a3.Name.match(/\[\d+\]$/)?.[0] ?? "";
function detailOf(a3) {
  const failed = Object.entries(a3.TaskStates ?? {}).find(([, state]) => state.Failed);
  if (failed) return html`task <${Name} of=${failed[0]} /> failed${failed[1].Restarts > 0 ? ` after ${plural(failed[1].Restarts, "restart")}` : ""}`;
  if (a3.DesiredStatus !== "run" && !["complete", "failed", "lost"].includes(a3.ClientStatus)) return "stopping";
  const restarts = Object.values(a3.TaskStates ?? {}).reduce((n3, state) => n3 + (state.Restarts ?? 0), 0);
  return [a3.DeploymentStatus?.Canary && "canary", a3.DeploymentStatus?.Healthy === true && "healthy", a3.DeploymentStatus?.Healthy === false && "unhealthy", restarts > 0 && plural(restarts, "restart")].filter(Boolean).join(", ");
}

// app/parts/explain.js
var EXPLAIN_PAGE = 20;
function Explain({ load }) {
  const [before, setBefore] = d2([""]);
  const [result, setResult] = d2({});
  const [all2, setAll] = d2(false);
  const token = before.at(-1);
  A2(() => {
    let current = true;
    load(token).then((r3) => current && setResult({ ...r3, token }), (error) => current && setResult({ error, token }));
    return () => {
      current = false;
    };
  }, [load, token]);
  const loading = result.token !== token;
  if (result.error?.status === 404) return html`<p class="muted">The job is not registered, so its nodes cannot be checked.</p>`;
  return html`
    <${Failure} error=${result.error} what="the checks of the nodes" />
    ${!result.data && !result.error && html`<${Loading} />`}
    ${(result.data?.Groups ?? []).map((g3) => html`<${Group} key=${g3.Name} group=${g3} all=${all2} />`)}
    ${result.data && html`<${Check} label="Show the checks that passed, too" checked=${all2} onChange=${setAll} />`}
    ${(result.next || before.length > 1) && html`<nav class="pager" aria-label="Pages of nodes">
      <span aria-live="polite">Page ${before.length}</span>
      ${before.length > 1 && html`<button type="button" class="button" disabled=${loading} onClick=${() => setBefore(before.slice(0, -1))}>Previous nodes</button>`}
      ${result.next && html`<button type="button" class="button" disabled=${loading} onClick=${() => setBefore([...before, result.next])}>More nodes</button>`}
    </nav>`}`;
}
function Group({ group, all: all2 }) {
  const columns3 = [
    { label: "Node", head: true, cell: (n3) => html`<a href=${nodeHref(n3.ID)}>${n3.Name ? html`<${Name} of=${n3.Name} />` : html`<${Code} of=${shortID(n3.ID)} />`}</a>
      <div>${n3.Fits ? html`<${Status} of="ready" label="Fits" /> <span class="muted small">score ${n3.Score.toFixed(3)}</span>` : html`<${Status} of="failed" label="Does not fit" />`}</div>` },
    { label: "Checks", cell: (n3) => html`<${Checks} checks=${n3.Checks ?? []} all=${all2} fits=${n3.Fits} />` }
  ];
  const title = html`Group <${Name} of=${group.Name} />: ${group.Fits} of ${plural(group.NodeCount, "node")} can take one more allocation`;
  return html`<div class="explained compact"><h3>${title}</h3>
    ${group.Nodes?.length ? html`<${Table} caption=${`Nodes checked for group ${group.Name}`} columns=${columns3} rows=${group.Nodes} rowKey=${(n3) => n3.ID} />` : group.Failed?.length ? html`<${Counts} group=${group} />` : html`<p class="muted">No node is on this page.</p>`}</div>`;
}
function Counts({ group }) {
  const columns3 = [
    { label: "First failed check", head: true, cell: (c3) => c3.Check },
    { label: "Nodes", cell: (c3) => c3.Nodes },
    { label: "Required", cell: (c3) => html`<${Name} of=${c3.Need} />` }
  ];
  return html`<${Table} caption=${`Failed checks of group ${group.Name}`} columns=${columns3} rows=${group.Failed} rowKey=${(c3) => `${c3.Check} ${c3.Need}`} />`;
}
function Checks({ checks, all: all2, fits }) {
  const shown = checks.filter((c3) => all2 || !c3.Passed);
  if (shown.length === 0) return html`<span class="muted">${fits ? "All passed." : "No check failed, but the node does not fit."}</span>`;
  return html`<ul class="reasons">${shown.map((c3) => html`<li>
    ${all2 && html`<${Status} of=${c3.Passed ? "ready" : "failed"} label=${c3.Passed ? "Passed" : "Failed"} /> `}<strong>${c3.Check}</strong>: <${Name} of=${c3.Need} />
    ${c3.Found && c3.Found !== c3.Need && html`<span class="muted"> → <${Name} of=${c3.Found} /></span>`}</li>`)}</ul>`;
}

// app/parts/placement.js
function Placement({ group, metric }) {
  const reasons = [
    ...reasonsOf(metric.ConstraintFiltered, (n3, what) => html`${plural(n3, "node")} excluded: <${Name} of=${what} />`),
    ...reasonsOf(metric.ClassFiltered, (n3, what) => html`${plural(n3, "node")} of class <${Name} of=${what} /> excluded`),
    ...reasonsOf(metric.DimensionExhausted, (n3, what) => html`${plural(n3, "node")} without enough: <${Name} of=${what} />`),
    ...reasonsOf(metric.ClassExhausted, (n3, what) => html`${plural(n3, "node")} of class <${Name} of=${what} /> exhausted`),
    ...(metric.QuotaExhausted ?? []).map((what) => html`quota reached: <${Name} of=${what} />`)
  ];
  const more = metric.CoalescedFailures ?? 0;
  return html`<${Notice} tone="warn" title=${html`Group <${Name} of=${group} />: ${plural(1 + more, "allocation")} not placed`}>
    ${metric.NodesEvaluated === 0 && reasons.length === 0 ? html`No node is eligible in the job's datacenters and in node pool <${Name} of=${metric.NodePool || "default"} />.` : html`${plural(metric.NodesEvaluated, "node")} evaluated.<ul class="reasons">${reasons.map((r3) => html`<li>${r3}</li>`)}</ul>`}
  <//>`;
}
var reasonsOf = (counts, text) => Object.entries(counts ?? {}).sort((a3, b2) => b2[1] - a3[1]).map(([what, n3]) => text(n3, what));

// app/parts/updates.js
var CHANGES = [
  ["Place", "Place"],
  ["Canary", "Canaries"],
  ["InPlaceUpdate", "Update in place"],
  ["DestructiveUpdate", "Replace"],
  ["Migrate", "Migrate"],
  ["Stop", "Stop"],
  ["Preemptions", "Preempt"],
  ["Ignore", "Keep"]
];
function Updates({ rows }) {
  const used = CHANGES.filter(([key]) => rows.some((r3) => r3[key] > 0));
  if (used.length === 0) return html`<p class="muted">No allocation changes.</p>`;
  const columns3 = [
    { label: "Group", head: true, cell: (r3) => html`<${Name} of=${r3.group} />` },
    ...used.map(([key, label]) => ({ label, kind: "number", cell: (r3) => r3[key] ?? 0 }))
  ];
  return html`<div class="compact"><${Table} caption="Changes by group" columns=${columns3} rows=${rows} rowKey=${(r3) => r3.group} /></div>`;
}

// app/pages/evaluation/words.js
var TRIGGERS = {
  "job-register": "The job was registered.",
  "job-deregister": "The job was stopped.",
  "periodic-job": "A run of a periodic job began.",
  "job-scaling": "A group was scaled.",
  "node-update": "A node changed.",
  "node-drain": "A node is being drained.",
  "alloc-stop": "An allocation was stopped by a user.",
  scheduled: "A scheduled evaluation, such as a garbage collection.",
  "rolling-update": "The next step of a rolling update.",
  "deployment-watcher": "A deployment goes on.",
  "failed-follow-up": "An earlier evaluation failed.",
  "max-plan-attempts": "The plans of an earlier evaluation were refused too often.",
  "alloc-failure": "An allocation failed.",
  "alloc-reschedule": "A failed allocation is replaced.",
  "queued-allocs": "Earlier allocations could not be placed.",
  preemption: "An allocation was preempted.",
  reconnect: "A disconnected node came back.",
  "max-disconnect-timeout": "A node was disconnected for too long."
};
function verdict(e3) {
  const failed = Object.keys(e3.FailedTGAllocs ?? {}).length > 0;
  switch (e3.Status) {
    case "pending":
      return "It waits for a scheduler.";
    case "blocked":
      return e3.QuotaLimitReached ? "It waits until the use of the quota falls." : "It waits for room. The scheduler tries again when a node or an allocation changes so that a placement may be possible.";
    case "canceled":
      return "It was canceled. A newer evaluation of the job replaces it.";
    case "failed":
      return "The scheduler could not process it.";
    case "complete":
      return failed ? "Some allocations were not placed." : "The scheduler placed, changed or stopped all that was needed.";
    default:
      return e3.StatusDescription;
  }
}

// app/pages/evaluation.js
function Evaluation({ params }) {
  const { data: e3, error } = useQuery(at`/v1/evaluation/${params.id}`, { params: { related: true }, topics: [`Evaluation:${params.id}`], namespace: "*" });
  return html`<${Page} title=${`Evaluation ${shortID(params.id)}`} crumbs=${[{ href: "/ui/evaluations", label: "Evaluations" }]} status=${e3 && html`<${Status} of=${e3.Status} />`}>
    <${Failure} error=${error} what="this evaluation" />
    ${!e3 && !error && html`<${Loading} />`}
    ${e3 && html`<p class="lead">${TRIGGERS[e3.TriggeredBy] ?? ""} ${verdict(e3)}</p>
      <${About2} evaluation=${e3} /><${NotPlaced} evaluation=${e3} />
      <${Planned} annotations=${e3.PlanAnnotations} /><${Related} evaluation=${e3} />`}
    ${e3?.JobID && e3.Type !== "_core" && html`<${Section} title="Allocations"><${List} path=${at`/v1/allocations`} what="allocations" params=${{ namespace: e3.Namespace }} filter=${`EvalID == ${quote(e3.ID)}`}
      columns=${allocColumns(["job"])} rowKey=${(a3) => a3.ID} facets=${ALLOC_FACETS} topics=${[`Allocation:${e3.JobID}`]} empty=${html`<p>No allocation was placed by this evaluation.</p>`} /><//>`}
  <//>`;
}
function About2({ evaluation: e3 }) {
  const link = (id, to) => id ? html`<a href=${to(id)}><${Code} of=${shortID(id)} /></a>` : null;
  return html`<${Facts} rows=${[
    ["ID", html`<${Code} of=${e3.ID} />`],
    ["Job", e3.JobID && e3.Type !== "_core" && html`<a href=${jobHref(e3.JobID, e3.Namespace)}><${Name} of=${e3.JobID} /></a>`],
    ["Namespace", html`<${Name} of=${e3.Namespace} />`],
    ["Type", e3.Type],
    ["Priority", String(e3.Priority)],
    ["Cause", e3.TriggeredBy],
    ["Description", e3.StatusDescription && html`<bdi>${e3.StatusDescription}</bdi>`],
    ["Node", link(e3.NodeID, nodeHref)],
    ["Waits until", e3.WaitUntil && !e3.WaitUntil.startsWith("0001") ? html`<${Ago} at=${e3.WaitUntil} />` : null],
    ["Quota reached", e3.QuotaLimitReached && html`<${Name} of=${e3.QuotaLimitReached} />`],
    ["Lacks", (e3.MissingNonNodeResources ?? []).join(", ")],
    ["Previous", link(e3.PreviousEval, evalHref)],
    ["Next", link(e3.NextEval, evalHref)],
    ["Blocked", link(e3.BlockedEval, evalHref)],
    ["Created", html`<${Ago} at=${e3.CreateTime} />`],
    ["Changed", html`<${Ago} at=${e3.ModifyTime} />`]
  ].map(([term, value]) => [term, value || null])} />`;
}
function NotPlaced({ evaluation: e3 }) {
  const failed = Object.entries(e3.FailedTGAllocs ?? {}).sort(([a3], [b2]) => a3 < b2 ? -1 : 1);
  const load = b((token) => api.get(at`/v1/job/${e3.JobID}/explain`, { namespace: e3.Namespace, per_page: EXPLAIN_PAGE, next_token: token }), [e3.JobID, e3.Namespace]);
  if (failed.length === 0) return null;
  return html`
    <${Section} title="Why is it not placed?">
      ${failed.map(([group, metric]) => html`<${Placement} key=${group} group=${group} metric=${metric} />`)}
      ${e3.BlockedEval && html`<p>Evaluation <a href=${evalHref(e3.BlockedEval)}><${Code} of=${shortID(e3.BlockedEval)} /></a> waits for room for the rest.</p>`}
    <//>
    <${Section} title="The nodes now"><p class="muted">Each node is checked again for one more allocation of each group.</p><${Explain} load=${load} /><//>`;
}
function Planned({ annotations }) {
  const rows = Object.entries(annotations?.DesiredTGUpdates ?? {}).filter(([, u3]) => u3).map(([group, u3]) => ({ group, ...u3 }));
  if (rows.length === 0) return null;
  return html`<${Section} title="Planned changes"><${Updates} rows=${rows} /><//>`;
}
var RELATED = [
  { label: "ID", head: true, cell: (e3) => html`<a href=${evalHref(e3.ID)}><${Code} of=${shortID(e3.ID)} /></a>` },
  { label: "Relation", kind: "narrow", cell: (e3) => e3.relation },
  { label: "Status", kind: "narrow", cell: (e3) => html`<${Status} of=${e3.Status} />` },
  { label: "Cause", cell: (e3) => TRIGGERS[e3.TriggeredBy] ?? e3.TriggeredBy },
  { label: "Description", cell: (e3) => html`<bdi>${e3.StatusDescription}</bdi>` },
  { label: "Created", kind: "narrow", cell: (e3) => html`<${Ago} at=${e3.CreateTime} />` }
];
function Related({ evaluation: e3 }) {
  const names2 = /* @__PURE__ */ new Map([[e3.PreviousEval, "previous"], [e3.NextEval, "next"], [e3.BlockedEval, "waits for room"]]);
  const rows = (e3.RelatedEvals ?? []).filter((r3) => r3.ID !== e3.ID).map((r3) => ({ ...r3, relation: names2.get(r3.ID) ?? "related" })).sort((a3, b2) => a3.CreateIndex - b2.CreateIndex);
  if (rows.length === 0) return null;
  return html`<${Section} title="Related evaluations"><${Table} caption="Related evaluations" columns=${RELATED} rows=${rows} rowKey=${(r3) => r3.ID} /><//>`;
}

// app/pages/evaluations.js
var equals = (field, values) => values.map((value) => ({ value, label: value[0].toUpperCase() + value.slice(1), filter: `${field} == "${value}"` }));
var FACETS2 = [
  { key: "status", label: "Status", options: equals("Status", ["pending", "blocked", "complete", "failed", "canceled"]) },
  { key: "type", label: "Job type", options: equals("Type", ["service", "batch", "system", "sysbatch"]) },
  { key: "trigger", label: "Cause", options: Object.keys(TRIGGERS).map((value) => ({ value, label: value, filter: `TriggeredBy == "${value}"` })) },
  { key: "placed", label: "Placement", options: [
    { value: "no", label: "Something not placed", filter: "FailedTGAllocs is not empty" },
    { value: "yes", label: "All placed", filter: "FailedTGAllocs is empty" }
  ] }
];
var COLUMNS6 = [
  { label: "ID", head: true, cell: (e3) => html`<a href=${evalHref(e3.ID)}><${Code} of=${shortID(e3.ID)} /></a>` },
  { label: "Status", kind: "narrow", cell: (e3) => html`<${Status} of=${e3.Status} />` },
  { label: "Of", cell: (e3) => html`<${Subject} evaluation=${e3} />` },
  { label: "Namespace", cell: (e3) => html`<${Name} of=${e3.Namespace} />` },
  { label: "Cause", cell: (e3) => e3.TriggeredBy },
  { label: "Not placed", cell: (e3) => html`<${Name} of=${Object.keys(e3.FailedTGAllocs ?? {}).sort().join(", ") || "–"} />` },
  { label: "Priority", kind: "number", cell: (e3) => e3.Priority },
  { label: "Created", kind: "narrow", cell: (e3) => html`<${Ago} at=${e3.CreateTime} />` }
];
function Subject({ evaluation: e3 }) {
  if (e3.JobID && e3.Type !== "_core") return html`<a href=${jobHref(e3.JobID, e3.Namespace)}><${Name} of=${e3.JobID} /></a>`;
  if (e3.NodeID) return html`<a href=${nodeHref(e3.NodeID)}>node <${Code} of=${shortID(e3.NodeID)} /></a>`;
  return html`<${Name} of=${e3.JobID || "–"} />`;
}
function Evaluations() {
  return html`<${Page} title="Evaluations">
    <${List} path=${at`/v1/evaluations`} what="evaluations" params=${{ reverse: true }} columns=${COLUMNS6} rowKey=${(e3) => e3.ID}
      search=${["ID", "JobID", "NodeID"]} facets=${FACETS2} namespaced topics=${["Evaluation"]} />
  <//>`;
}

// app/pages/exec/words.js
function words2(text) {
  const out = [];
  let word2 = null;
  let quote2 = "";
  for (let i3 = 0; i3 < text.length; i3++) {
    const c3 = text[i3];
    if (c3 === "\\" && quote2 !== "'") {
      if (++i3 === text.length) return null;
      word2 = (word2 ?? "") + text[i3];
    } else if (quote2 !== "") {
      if (c3 === quote2) quote2 = "";
      else word2 += c3;
    } else if (c3 === '"' || c3 === "'") {
      quote2 = c3;
      word2 ??= "";
    } else if (/\s/.test(c3)) {
      if (word2 !== null) out.push(word2);
      word2 = null;
    } else {
      word2 = (word2 ?? "") + c3;
    }
  }
  if (word2 !== null) out.push(word2);
  return quote2 === "" && out.length > 0 && out[0] !== "" ? out : null;
}

// app/pages/exec/session.js
var BEAT = 1e4;
var CHUNK = 8 << 10;
var PENDING = 4 << 20;
var Session = class {
  /** Called with {name, code, error}: name is 'open' or 'ended'. */
  onState = () => {
  };
  #options;
  #socket = null;
  #beat = 0;
  #pending = 0;
  #dropped = 0;
  #result = null;
  #asked = false;
  /** @param {{alloc: string, namespace: string, task: string, command: string[], terminal: object}} options */
  constructor(options) {
    this.#options = options;
  }
  open() {
    const { alloc, namespace, task, command, terminal } = this.#options;
    const address = new URL(url(at`/v1/client/allocation/${alloc}/exec`, { namespace, task, tty: true, ws_handshake: true, command: JSON.stringify(command) }), location.href);
    address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = this.#socket = new WebSocket(address);
    socket.onopen = () => {
      this.#send({ version: 1, auth_token: currentToken() });
      this.#size(terminal.size());
      this.#beat = setInterval(() => this.#send({}), BEAT);
      this.onState({ name: "open" });
    };
    socket.onmessage = (event) => this.#receive(JSON.parse(event.data));
    socket.onclose = (event) => this.#closed(event);
    terminal.onInput = (bytes2) => this.#input(bytes2);
    terminal.onSize = (size) => this.#size(size);
  }
  close() {
    this.#asked = true;
    this.#socket?.close(1e3);
  }
  #send(message) {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }
  #size({ rows, cols }) {
    this.#send({ tty_size: { height: rows, width: cols } });
  }
  #input(bytes2) {
    for (let i3 = 0; i3 < bytes2.length; i3 += CHUNK) {
      this.#send({ stdin: { data: btoa(String.fromCharCode(...bytes2.subarray(i3, i3 + CHUNK))) } });
    }
  }
  #receive(message) {
    const data = message.stdout?.data ?? message.stderr?.data;
    if (data) this.#write(Uint8Array.from(atob(data), (c3) => c3.charCodeAt(0)));
    if (message.exited) this.#result = message.result ?? {};
  }
  /** Writes output. A command can write faster than a terminal draws. */
  #write(bytes2) {
    if (this.#pending > PENDING) {
      this.#dropped += bytes2.length;
      return;
    }
    if (this.#dropped > 0) this.#options.terminal.write(`\r
[${this.#dropped} bytes of output left out]\r
`, () => {
    });
    this.#dropped = 0;
    this.#pending += bytes2.length;
    this.#options.terminal.write(bytes2, () => {
      this.#pending -= bytes2.length;
    });
  }
  #closed({ code, reason }) {
    clearInterval(this.#beat);
    this.#options.terminal.stop();
    if (this.#result) this.onState({ name: "ended", code: this.#result.exit_code ?? 0 });
    else if (this.#asked) this.onState({ name: "ended" });
    else this.onState({ name: "ended", error: reason || `The connection has ended (code ${code}).` });
  }
};

// app/pages/exec.js
var NOT_LOADED = "The terminal could not be loaded. The agent does not answer, or it was upgraded since this window was opened. Reload the page.";
var STATES2 = { idle: ["idle", "off", "Not connected"], connecting: ["info", "wait", "Connecting"], open: ["ok", "run", "Connected"], ended: ["idle", "stop", "Ended"] };
function Exec({ params }) {
  const { id, namespace } = parseJob(params.job);
  const { data: a3, error } = useQuery(at`/v1/allocation/${params.alloc}`, { topics: [`Allocation:${params.alloc}`], namespace: "*" });
  const [state, setState] = d2({ name: "idle" });
  const [tone, icon, label] = STATES2[state.name];
  const crumbs = [{ href: "/ui/jobs", label: "Jobs" }, { href: jobHref(id, namespace), label: id }, { href: allocHref(params.alloc), label: a3?.Name ?? shortID(params.alloc) }];
  return html`<${Page} title=${`Terminal in ${params.task}`} crumbs=${crumbs} status=${html`<${Status} of=${state.name} tone=${tone} icon=${icon} label=${label} />`}>
    <${Failure} error=${error} what="this allocation" />
    ${!a3 && !error && html`<${Loading} />`}
    ${a3 && html`<${About3} alloc=${a3} task=${params.task} /><${Terminal} alloc=${a3} task=${params.task} state=${state} setState=${setState} />`}
  <//>`;
}
function About3({ alloc: a3, task }) {
  const state = a3.TaskStates?.[task]?.State ?? "unknown";
  return html`<${Facts} rows=${[
    ["Task", html`<${Name} of=${task} />`],
    ["State", html`<${Status} of=${state} />`],
    ["Allocation", html`<a href=${allocHref(a3.ID)}><${Code} of=${shortID(a3.ID)} /></a>`],
    ["Group", html`<${Name} of=${a3.TaskGroup} />`],
    ["Node", html`<${Name} of=${a3.NodeName} />`]
  ]} />`;
}
function Terminal({ alloc, task, state, setState }) {
  const [command, setCommand] = d2("/bin/sh");
  const [reader, setReader] = d2(false);
  const box = T2(null);
  const leave = T2(null);
  const active = T2(null);
  A2(() => () => active.current?.close(), []);
  const parsed = words2(command);
  const busy = state.name === "connecting" || state.name === "open";
  async function connect(event) {
    event.preventDefault();
    if (busy || parsed === null) return;
    active.current?.close();
    setState({ name: "connecting" });
    let terminal;
    try {
      const { openTerminal } = await import("../pages/exec/terminal.js").catch(() => {
        throw new Error(NOT_LOADED);
      });
      terminal = await openTerminal(box.current, reader, () => leave.current?.focus());
    } catch (err) {
      setState({ name: "ended", error: err.message });
      return;
    }
    const session2 = new Session({ alloc: alloc.ID, namespace: alloc.Namespace, task, command: parsed, terminal });
    active.current = { end: () => session2.close(), close: () => {
      session2.close();
      terminal.dispose();
    } };
    session2.onState = setState;
    session2.open();
    terminal.focus();
  }
  return html`
    <form class="list-tools exec-form" onSubmit=${connect}>
      <${Field} label="Command" value=${command} onInput=${setCommand} error=${parsed === null ? "A quotation mark is not closed, or there is no command." : void 0} readonly=${busy} />
      ${busy ? html`<button type="button" class="button" ref=${leave} onClick=${() => active.current?.end()}>Disconnect</button>` : html`<button type="submit" class="button primary" disabled=${parsed === null}>Connect</button>`}
      ${!busy && html`<${Check} label="For a screen reader" checked=${reader} onChange=${setReader} />`}
    </form>
    <${Ended} state=${state} />
    <div class="terminal" data-open=${state.name !== "idle"} ref=${box}></div>
    ${busy && html`<p class="muted small">The tab key belongs to the terminal. <kbd>Ctrl</kbd>+<kbd>Shift</kbd>+<kbd>L</kbd> leaves it.</p>`}`;
}
function Ended({ state }) {
  if (state.error) return html`<${Notice} tone="bad" title="The session failed.">${state.error}<//>`;
  if (state.name !== "ended") return null;
  return html`<${Notice} tone=${state.code ? "warn" : "info"}>${state.code === void 0 ? "You disconnected. The command was ended." : `The command ended with exit code ${state.code}.`}<//>`;
}

// app/pages/exectargets.js
var SHOWN2 = ["ID", "Group", "Node", "Created"];
function ExecTargets({ params, query }) {
  const parsed = parseJob(params.job);
  const { id } = parsed;
  const namespace = params.job.includes("@") ? parsed.namespace : query.get("namespace") || "default";
  const job = useQuery(at`/v1/job/${id}`, { params: { namespace }, topics: [`Job:${id}`] });
  const missing = job.data && absent(job.data, params);
  const crumbs = [{ href: "/ui/jobs", label: "Jobs" }, { href: jobHref(id, namespace), label: id }];
  return html`<${Page} title="Choose a task for a terminal" crumbs=${crumbs}>
    <${Failure} error=${job.error} what="this job" />
    ${!job.data && !job.error && html`<${Loading} />`}
    ${missing}
    ${job.data && !missing && html`<${Facts} rows=${[["Job", html`<${Name} of=${id} />`], ["Group", params.group && html`<${Name} of=${params.group} />`], ["Task", params.task && html`<${Name} of=${params.task} />`]]} />
      <${Targets} id=${id} namespace=${namespace} group=${params.group} task=${params.task} alloc=${query.get("allocation")} />`}
  <//>`;
}
function absent(job, { group, task }) {
  if (!group) return null;
  const found = job.TaskGroups.find((g3) => g3.Name === group);
  if (!found) return html`<p>The job has no group <${Name} of=${group} />.</p>`;
  if (task && !found.Tasks.some((t4) => t4.Name === task)) return html`<p>The group <${Name} of=${group} /> has no task <${Name} of=${task} />.</p>`;
  return null;
}
function Targets({ id, namespace, group, task, alloc }) {
  const filter = all(`JobID == ${quote(id)}`, 'ClientStatus == "running"', group && `TaskGroup == ${quote(group)}`, alloc && `ID == ${quote(alloc)}`);
  const columns3 = [...allocColumns(["job"]).filter((c3) => SHOWN2.includes(c3.label)), { label: "Terminal", cell: (a3) => html`<${Tasks} alloc=${a3} only=${task} />` }];
  return html`<${List} path=${at`/v1/allocations`} what="running allocations" params=${{ namespace, reverse: true }} filter=${filter}
    columns=${columns3} rowKey=${(a3) => a3.ID} topics=${[`Allocation:${id}`]} />`;
}
function Tasks({ alloc: a3, only }) {
  const tasks = Object.keys(a3.TaskStates ?? {}).filter((name2) => a3.TaskStates[name2].State === "running" && (!only || name2 === only)).sort();
  if (tasks.length === 0) return html`<span class="muted">no running task</span>`;
  return html`<ul class="exec-tasks">${tasks.map((name2) => html`<li><a href=${execHref(a3.JobID, a3.Namespace, a3.TaskGroup, name2, a3.ID)}>Terminal in <${Name} of=${name2} /></a></li>`)}</ul>`;
}

// app/pages/identities/audiences.js
function Audiences({ query }) {
  const audience = query.get("audience") ?? "";
  const namespace = query.get("namespace") || "default";
  const [typed, setTyped] = d2({ audience, namespace });
  function submit(event) {
    event.preventDefault();
    pushQuery({ audience: typed.audience.trim() || null, namespace: typed.namespace.trim() || null });
  }
  return html`<form class="list-tools" role="search" aria-label="Audience" onSubmit=${submit}>
      <${Field} label="Audience" value=${typed.audience} onInput=${(v3) => setTyped({ ...typed, audience: v3 })} maxlength="256" />
      <${Field} label="Namespace" value=${typed.namespace} onInput=${(v3) => setTyped({ ...typed, namespace: v3 })} maxlength="128" />
      <button type="submit" class="button primary" disabled=${!typed.audience.trim()}>Find</button>
    </form>
    <p class="muted">Which tasks and services of the namespace get tokens for this audience, and who can run a job that gets them.</p>
    ${audience && html`<${Found} audience=${audience} namespace=${namespace} />`}`;
}
var IDENTITIES = [
  { label: "Job", head: true, cell: (i3) => html`<a href=${jobHref(i3.JobID, i3.namespace)}><${Name} of=${i3.JobID} /></a>` },
  { label: "Group", cell: (i3) => html`<${Name} of=${i3.Group} />` },
  { label: "Holder", cell: (i3) => i3.Service ? html`service <${Name} of=${i3.Service} />` : html`task <${Name} of=${i3.Task} />` },
  { label: "Identity", cell: (i3) => html`<${Code} of=${i3.Identity} />` }
];
var CALLERS = [
  { label: "Who", head: true, cell: (a3) => html`${a3.Subject.Kind} <${Name} of=${a3.Subject.Name || shortID(a3.Subject.ID)} />` },
  { label: "Why", cell: (a3) => html`<bdi>${(a3.Decisions ?? []).map((d3) => `${d3.Question}: ${d3.Reason}`).join("; ")}</bdi>` }
];
function Found({ audience, namespace }) {
  const { self, state } = useStore(session);
  const everybody = self?.Type === "management";
  const { data, error } = useQuery(state === "unknown" ? null : at`/v1/acl/explain`, { params: { kind: "audience", right: "mint", name: audience, namespace, everybody: everybody || null, per_page: 100 } });
  const identities = (data?.Identities ?? []).map((i3) => ({ ...i3, namespace }));
  const callers = (data?.Answers ?? []).filter((a3) => a3.Allowed && a3.Subject.Kind !== "workload");
  return html`<${Failure} error=${error} what="who has this audience" />
    ${data && html`
      <${Section} title="Identities with this audience">${identities.length > 0 ? html`<${Table} caption="identities" columns=${IDENTITIES} rows=${identities} rowKey=${(i3) => JSON.stringify(i3)} />` : html`<p>None that you may see.</p>`}<//>
      <${Section} title="Who can run a job that gets a token">${callers.length > 0 ? html`<${Table} caption="callers" columns=${CALLERS} rows=${callers} rowKey=${(a3) => JSON.stringify(a3.Subject)} />` : html`<p>${everybody ? "Nobody." : "Not you. Only a management token may list the others."}</p>`}
        ${data && everybody && callers.length >= 100 && html`<p class="muted">The first 100.</p>`}<//>`}`;
}

// app/pages/identities/nodes.js
var EARLIEST = "node_identity.earliest_expiry";
function Nodes() {
  const [ends, setEnds] = d2({});
  const [renewed, setRenewed] = d2({});
  const columns3 = [
    { label: "Node", head: true, cell: (n3) => html`<a href=${nodeHref(n3.ID)}><${Name} of=${n3.Name} /></a><div class="small muted"><${Code} of=${shortID(n3.ID)} /></div>` },
    { label: "Status", kind: "narrow", cell: (n3) => html`<${Status} of=${n3.Status} />` },
    { label: "Pool", cell: (n3) => html`<${Name} of=${n3.NodePool} />` },
    { label: "Identity", cell: (n3) => n3.Status === "ready" ? html`<${Identity} key=${`${n3.ID} ${renewed[n3.ID] ?? 0}`} id=${n3.ID} onEnd=${(end) => setEnds((old) => ({ ...old, [n3.ID]: end }))} />` : html`<span class="muted">not known while the node does not answer</span>` },
    { label: "Actions", kind: "narrow", cell: (n3) => n3.Status === "ready" && html`<${DialogButton} label="Renew" dialog=${(close) => html`<${Renew} node=${n3} onClose=${close} onDone=${() => setRenewed((old) => ({ ...old, [n3.ID]: (old[n3.ID] ?? 0) + 1 }))} />`} />` }
  ];
  return html`<${Earliest} ends=${ends} />
    <${List} path=${at`/v1/nodes`} what="nodes" columns=${columns3} rowKey=${(n3) => n3.ID} search=${["Name", "ID"]} topics=${["Node"]} />`;
}
function Earliest({ ends }) {
  const { data } = useQuery(at`/v1/metrics`);
  const gauge = (data?.Gauges ?? []).find((g3) => g3.Name.endsWith(EARLIEST));
  const listed = Object.values(ends).filter(Boolean);
  const [read3, setRead] = d2(0);
  A2(() => setRead(Date.now()), [data]);
  if (gauge) return html`<p>Earliest expiry of the fleet: <strong><${Ago} at=${new Date(read3 + gauge.Value * 1e3).toISOString()} /></strong></p>`;
  if (listed.length === 0) return null;
  return html`<p>Earliest expiry of the nodes below: <strong><${Ago} at=${timeOf(Math.min(...listed))} /></strong>
    <span class="muted"> That of the whole fleet is the metric <code class="name">nomad.nomad.${EARLIEST}</code> of the leader.</span></p>`;
}
var timeOf = (seconds) => new Date(seconds * 1e3).toISOString();
function Identity({ id, onEnd }) {
  const { data, error } = useQuery(at`/v1/client/identity`, { params: { node_id: id } });
  const claims = data?.Claims;
  A2(() => {
    if (claims) onEnd(claims.exp);
  }, [claims?.exp]);
  if (error) return html`<span class="muted">not known: <bdi>${error.message}</bdi></span>`;
  if (!claims) return null;
  return html`<div>${claims.exp ? html`expires <${Ago} at=${timeOf(claims.exp)} />` : "does not expire"}</div>
    <div class="small muted">issued ${claims.iat ? html`<${Ago} at=${timeOf(claims.iat)} />` : "–"} for <bdi>${[claims.aud].flat().join(", ")}</bdi></div>
    <div class="small muted"><bdi>${claims.sub}</bdi></div>`;
}
function Renew({ node, onClose, onDone }) {
  async function confirm() {
    await api.put(at`/v1/client/identity/renew`, void 0, { node_id: node.ID });
    onDone();
  }
  return html`<${Dialog} title="Renew the identity?" action="Renew" onClose=${onClose} onConfirm=${confirm}>
    <p>Node <strong><${Name} of=${node.Name} /></strong> gets a new identity with its next heartbeat. Its tasks go on.</p>
  <//>`;
}

// app/pages/identities/workloads.js
var COLUMNS7 = [
  { label: "Job", head: true, cell: (j2) => html`<a href=${jobHref(j2.ID, j2.Namespace)}><${Name} of=${j2.ID} /></a>` },
  { label: "Namespace", cell: (j2) => html`<${Name} of=${j2.Namespace} />` },
  { label: "Identities", kind: "wide", cell: (j2) => html`<${Identities} id=${j2.ID} namespace=${j2.Namespace} />` }
];
function Workloads() {
  return html`<p>Each task of an allocation has a default identity, which is valid as long as the allocation. The task sees it only with <code>env</code> or <code>file</code>.
      Named identities are renewed after half of their lifetime.</p>
    <${List} path=${at`/v1/jobs`} what="jobs" columns=${COLUMNS7} rowKey=${(j2) => `${j2.Namespace} ${j2.ID}`} filter='Status != "dead"' search=${["ID", "Name"]} namespaced topics=${["Job"]} />`;
}
function identitiesOf(job) {
  const of = (holder, id) => ({
    holder,
    name: id.Name || "default",
    audience: id.Audience ?? [],
    ttl: id.TTL ?? 0,
    places: [id.Env && "env", id.File && (id.Filepath || "file")].filter(Boolean)
  });
  const services = (holder, list) => (list ?? []).filter((s3) => s3.Identity).map((s3) => of(`${holder}, service ${s3.Name}`, s3.Identity));
  return (job.TaskGroups ?? []).flatMap((g3) => [
    ...services(g3.Name, g3.Services),
    ...(g3.Tasks ?? []).flatMap((t4) => [of(`${g3.Name}/${t4.Name}`, t4.Identity ?? {}), ...(t4.Identities ?? []).map((id) => of(`${g3.Name}/${t4.Name}`, id)), ...services(`${g3.Name}/${t4.Name}`, t4.Services)])
  ]);
}
function Identities({ id, namespace }) {
  const { data, error } = useQuery(at`/v1/job/${id}`, { params: { namespace } });
  if (error) return html`<span class="muted">not known: <bdi>${error.message}</bdi></span>`;
  return html`<ul class="grants">${data && identitiesOf(data).map((i3) => html`<li><${Name} of=${i3.holder} />: <${Code} of=${i3.name} />${i3.audience.length > 0 && html` for <bdi>${i3.audience.join(", ")}</bdi>`},
    ${" "}valid ${i3.ttl > 0 ? `${nanoseconds(i3.ttl)}, renewed` : "as long as the allocation"}${i3.places.length > 0 && html`, in <bdi>${i3.places.join(" and ")}</bdi>`}</li>`)}</ul>`;
}

// app/pages/identities.js
var TABS3 = { "": ["Nodes", Nodes], workloads: ["Tasks and services", Workloads], audiences: ["Audiences", Audiences] };
function Identities2({ params, query }) {
  const tab = params.tab in TABS3 ? params.tab : "";
  const link = (name2) => href(name2 ? `/ui/identities/${name2}` : "/ui/identities");
  const [, Tab] = TABS3[tab];
  const tabs = html`<${Tabs} label="Holders of identities" tabs=${Object.entries(TABS3).map(([name2, [label]]) => ({ href: link(name2), label }))} current=${link(tab)} />`;
  return html`<${Page} title="Identities" tabs=${tabs}><${Tab} query=${query} /><//>`;
}

// app/parts/bar.js
function Bar({ label, parts }) {
  const shown = parts.filter((p3) => p3.count > 0);
  const text = shown.map((p3) => `${count(p3.count)} ${p3.name}`);
  return html`<div class="bar-box">
    <div class="bar" role="img" aria-label=${`${label}: ${text.join(", ") || "none"}`}>
      ${shown.map((p3) => html`<span data-tone=${p3.tone} data-pattern=${p3.striped ? "striped" : null} style=${{ flex: String(p3.count) }}></span>`)}
    </div>
    <div class="counts" aria-hidden="true">${text.map((t4) => html`<span>${t4}</span>`)}</div>
  </div>`;
}
function allocParts(sum) {
  return [
    { name: "running", count: sum.Running, tone: "ok" },
    { name: "starting", count: sum.Starting, tone: "info" },
    { name: "queued", count: sum.Queued, tone: "warn", striped: true },
    { name: "unknown", count: sum.Unknown, tone: "warn" },
    { name: "failed", count: sum.Failed, tone: "bad", striped: true },
    { name: "lost", count: sum.Lost, tone: "bad" },
    { name: "complete", count: sum.Complete, tone: "idle" }
  ];
}

// app/pages/jobs.js
var equals2 = (field, values) => values.map(([value, label]) => ({ value, label, filter: `${field} == "${value}"` }));
var FACETS3 = [
  { key: "status", label: "Status", options: equals2("Status", [["running", "Running"], ["pending", "Pending"], ["dead", "Dead"]]) },
  { key: "type", label: "Type", options: equals2("Type", [["service", "Service"], ["batch", "Batch"], ["system", "System"], ["sysbatch", "Sysbatch"]]) }
];
var COLUMNS8 = [
  { label: "Job", head: true, cell: (j2) => html`<a href=${jobHref(j2.ID, j2.Namespace)}><${Name} of=${j2.Name} /></a>${j2.Name !== j2.ID && html`<div class="muted small"><${Name} of=${j2.ID} /></div>`}` },
  { label: "Status", kind: "narrow", cell: (j2) => html`<${Status} of=${jobStatus(j2)} />` },
  { label: "Allocations", cell: (j2) => html`<${Bar} label="Allocations" parts=${allocParts(sumOf(j2.JobSummary))} />` },
  { label: "Type", kind: "narrow", cell: kindOf },
  { label: "Namespace", cell: (j2) => html`<${Name} of=${j2.Namespace} />` },
  { label: "Priority", kind: "number", cell: (j2) => j2.Priority },
  { label: "Submitted", kind: "narrow", cell: (j2) => html`<${Ago} at=${j2.SubmitTime} />` }
];
function kindOf(job) {
  if (job.Periodic) return `${job.Type}, periodic`;
  if (job.ParameterizedJob) return `${job.Type}, parameterized`;
  return job.Type;
}
function Jobs() {
  return html`<${Page} title="Jobs" actions=${html`<a class="button primary" href=${href("/ui/jobs/run")}>Run a job</a>`}>
    <${List} path=${at`/v1/jobs`} what="jobs" columns=${COLUMNS8} rowKey=${(j2) => `${j2.Namespace} ${j2.ID}`} search=${["ID", "Name"]} facets=${FACETS3}
      namespaced topics=${["Job", "Allocation"]} empty=${html`<p>There are no jobs yet.</p><p><code>nomad job run example.nomad.hcl</code> runs the first one.</p>`} />
  <//>`;
}

// app/pages/job/conflict.js
var changed = () => new Error("This job was changed since you opened this dialog. Nothing was done: close it to see the job as it is now.");
async function needUnchanged(seen) {
  const { data } = await api.get(at`/v1/job/${seen.ID}`, { namespace: seen.Namespace });
  if (data.JobModifyIndex !== seen.JobModifyIndex) throw changed();
}
async function expect(request2) {
  try {
    return await request2;
  } catch (err) {
    throw /modify index|enforcing version/i.test(err.message) ? changed() : err;
  }
}

// app/pages/job/dispatch.js
function DispatchDialog({ job, onClose }) {
  const { Payload: rule, MetaRequired: required, MetaOptional: optional } = job.ParameterizedJob;
  const [meta, setMeta] = d2({});
  const [payload, setPayload] = d2("");
  const missing = (required ?? []).some((key) => !meta[key]);
  const ready = !missing && !(rule === "required" && !payload);
  async function confirm() {
    const filled = Object.fromEntries(Object.entries(meta).filter(([, value]) => value !== ""));
    const { data } = await api.put(at`/v1/job/${job.ID}/dispatch`, { Meta: filled, Payload: payload ? base64(payload) : null }, { namespace: job.Namespace });
    navigate(jobHref(data.DispatchedJobID, job.Namespace));
  }
  const input = (key, hint) => html`<${Field} label=${key} hint=${hint} value=${meta[key] ?? ""} onInput=${(v3) => setMeta({ ...meta, [key]: v3 })} />`;
  return html`<${Dialog} title="Dispatch the job" action="Dispatch" onClose=${onClose} onConfirm=${confirm} ready=${ready}>
    ${(required ?? []).map((key) => input(key, "Required"))}
    ${(optional ?? []).map((key) => input(key, "Optional"))}
    ${rule !== "forbidden" && html`<${Field} label="Payload" type="textarea" value=${payload} onInput=${setPayload} hint=${rule === "required" ? "Required, 16 KiB at most" : "Optional, 16 KiB at most"} />`}
    ${!required?.length && !optional?.length && rule === "forbidden" && html`<p>The job takes no parameters.</p>`}
  <//>`;
}
function base64(text) {
  return btoa(Array.from(new TextEncoder().encode(text), (b2) => String.fromCharCode(b2)).join(""));
}

// app/pages/job/actions.js
function JobActions({ job, onDone }) {
  const runs = !job.Stop;
  return html`
    ${runs && job.ParameterizedJob && html`<${DialogButton} label="Dispatch" primary dialog=${(close) => html`<${DispatchDialog} job=${job} onClose=${close} />`} />`}
    ${runs && job.Periodic?.Enabled && html`<${DialogButton} label="Run now" dialog=${(close) => html`<${RunNow} job=${job} onClose=${close} onDone=${onDone} />`} />`}
    ${runs ? html`<${DialogButton} key="stop" label="Stop" danger dialog=${(close) => html`<${Stop} job=${job} onClose=${close} onDone=${onDone} />`} />` : html`<${DialogButton} key="start" label="Start" primary dialog=${(close) => html`<${Start} job=${job} onClose=${close} onDone=${onDone} />`} />`}`;
}
function Stop({ job, onClose, onDone }) {
  const [seen] = d2(job);
  const [purge, setPurge] = d2(false);
  async function confirm() {
    await needUnchanged(seen);
    await api.del(at`/v1/job/${job.ID}`, { namespace: job.Namespace, purge: purge || null });
    if (purge) navigate("/ui/jobs");
    else await onDone();
  }
  return html`<${Dialog} title="Stop the job?" action=${purge ? "Stop and purge" : "Stop"} danger onClose=${onClose} onConfirm=${confirm}>
    <p>All allocations of <strong><${Name} of=${job.Name} /></strong> are stopped. The job can be started again.</p>
    <${Check} label="Also purge it: remove the job and its history. It cannot be started again." checked=${purge} onChange=${setPurge} />
  <//>`;
}
function Start({ job, onClose, onDone }) {
  const [seen] = d2(job);
  async function confirm() {
    const { data } = await api.get(at`/v1/job/${job.ID}/versions`, { namespace: job.Namespace });
    const ran = data.Versions.find((v3) => !v3.Stop);
    if (!ran) throw new Error("No version of this job that ran is stored. Run the job file again.");
    await expect(api.put(at`/v1/job/${job.ID}/revert`, { JobID: job.ID, JobVersion: ran.Version, EnforcePriorVersion: seen.Version }, { namespace: job.Namespace }));
    await onDone();
  }
  return html`<${Dialog} title="Start the job?" action="Start" onClose=${onClose} onConfirm=${confirm}>
    <p>The last version of <strong><${Name} of=${job.Name} /></strong> that ran is registered as a new version.</p>
  <//>`;
}
function RunNow({ job, onClose, onDone }) {
  async function confirm() {
    await api.put(at`/v1/job/${job.ID}/periodic/force`, void 0, { namespace: job.Namespace });
    await onDone();
  }
  return html`<${Dialog} title="Run the job now?" action="Run now" onClose=${onClose} onConfirm=${confirm}>
    <p>A run of <strong><${Name} of=${job.Name} /></strong> begins now, besides those of its schedule.</p>
  <//>`;
}
function ScaleDialog({ onClose, onDone, ...now }) {
  const [{ job, group }] = d2(now);
  const [text, setText] = d2(String(group.Count));
  const [reason, setReason] = d2("");
  const n3 = /^\d{1,6}$/.test(text) ? Number(text) : -1;
  const { Min: min = 0, Max: max = Infinity } = group.Scaling ?? {};
  const fault = n3 < 0 ? "Use a whole number." : n3 < min || n3 > max ? `The scaling block allows ${min} to ${max}.` : null;
  async function confirm() {
    const target = { Namespace: job.Namespace, Job: job.ID, Group: group.Name };
    const body = { Target: target, Count: n3, Message: reason || "scaled in the web UI", JobModifyIndex: job.JobModifyIndex };
    await expect(api.put(at`/v1/job/${job.ID}/scale`, body, { namespace: job.Namespace }));
    await onDone();
  }
  return html`<${Dialog} title="Scale the group" action="Scale" onClose=${onClose} onConfirm=${confirm} ready=${!fault && n3 !== group.Count}>
    <p>Group <strong><${Name} of=${group.Name} /></strong> has a count of ${group.Count}.</p>
    <${Field} label="New count" value=${text} onInput=${setText} inputmode="numeric" error=${fault} />
    <${Field} label="Reason, kept with the scaling event" value=${reason} onInput=${setReason} maxlength="200" />
  <//>`;
}

// app/pages/job/allocations.js
function Allocations({ job, namespace, group }) {
  return html`<${List} path=${at`/v1/allocations`} what="allocations" params=${{ namespace, reverse: true }} filter=${all(`JobID == ${quote(job.ID)}`, group && `TaskGroup == ${quote(group)}`)}
    columns=${allocColumns(["job"])} rowKey=${(a3) => a3.ID} search=${["ID", "NodeName", "TaskGroup"]} facets=${ALLOC_FACETS} topics=${[`Allocation:${job.ID}`]} />`;
}

// app/pages/job/definition.js
function Definition({ job, namespace }) {
  const source = useQuery(at`/v1/job/${job.ID}/submission`, { params: { namespace, version: job.Version } });
  const absent2 = source.error?.status === 404;
  return html`
    <${Section} title="Submitted file" actions=${html`<a class="button" href=${href("/ui/jobs/run", { job: job.ID, namespace, version: job.Version })}>Edit and plan</a>`}>
      ${source.data && html`<pre tabindex="0" role="region" aria-label="Submitted file"><bdi>${source.data.Source}</bdi></pre>`}
      ${absent2 && html`<p class="muted">The file of this version is not stored. Jobs that were registered as JSON have none.</p>`}
      ${!absent2 && html`<${Failure} error=${source.error} what="the submitted file" />`}
    <//>
    <${Section} title="As stored"><pre tabindex="0" role="region" aria-label="Job as stored"><bdi>${JSON.stringify(job, null, 2)}</bdi></pre><//>`;
}

// app/pages/job/deployment.js
var ACTIVE = ["running", "paused", "blocked", "unblocking", "pending", "initializing"];
function DeploymentPanel({ deployment: d3, refresh, heading = "h2" }) {
  const groups2 = Object.entries(d3.TaskGroups ?? {}).map(([name2, group]) => ({ name: name2, ...group }));
  return html`<article class="panel">
    <div class="panel-head">
      <${Status} of=${d3.Status} /><${heading}>Version ${d3.JobVersion}<//><${Code} of=${shortID(d3.ID)} /><span class="muted small"><${Ago} at=${d3.CreateTime} /></span>
      <div class="actions">${ACTIVE.includes(d3.Status) && html`<${Actions2} deployment=${d3} groups=${groups2} refresh=${refresh} />`}</div>
    </div>
    <p class="muted">${d3.StatusDescription}</p>
    <${Table} caption=${`Groups of the deployment of version ${d3.JobVersion}`} columns=${COLUMNS9} rows=${groups2} rowKey=${(g3) => g3.name} />
  </article>`;
}
var COLUMNS9 = [
  { label: "Group", head: true, cell: (g3) => html`<${Name} of=${g3.name} />` },
  { label: "Health", cell: (g3) => html`<${Bar} label="Health" parts=${[
    { name: "healthy", count: g3.HealthyAllocs, tone: "ok" },
    { name: "unhealthy", count: g3.UnhealthyAllocs, tone: "bad", striped: true },
    { name: "placed", count: Math.max(0, g3.PlacedAllocs - g3.HealthyAllocs - g3.UnhealthyAllocs), tone: "info" },
    { name: "to place", count: Math.max(0, g3.DesiredTotal - g3.PlacedAllocs), tone: "none" }
  ]} />` },
  { label: "Desired", kind: "number", cell: (g3) => g3.DesiredTotal },
  { label: "Canaries", kind: "narrow", cell: (g3) => g3.DesiredCanaries > 0 ? `${(g3.PlacedCanaries ?? []).length} of ${g3.DesiredCanaries}, ${g3.Promoted ? "promoted" : "not promoted"}` : "–" },
  { label: "Auto-revert", kind: "narrow", cell: (g3) => g3.AutoRevert ? "yes" : "no" },
  { label: "Progress by", kind: "narrow", cell: (g3) => html`<${Ago} at=${g3.RequireProgressBy} />` }
];
function Actions2({ deployment: d3, groups: groups2, refresh }) {
  const waits = groups2.some((g3) => g3.DesiredCanaries > 0 && !g3.Promoted);
  const paused = d3.Status === "paused";
  const params = { namespace: d3.Namespace };
  const act = (path, body) => async () => {
    await api.put(path, body, params);
    await refresh();
  };
  const button = (label, text, run2, kind = {}) => html`<${DialogButton} key=${label} label=${label} ...${kind} dialog=${(close) => html`<${Dialog} title=${`${label} the deployment?`} action=${label} danger=${kind.danger} onClose=${close} onConfirm=${run2}><p>${text}</p><//>`} />`;
  return html`
    ${waits && button("Promote", "The canaries become the job, and the allocations of the earlier version are replaced.", act(at`/v1/deployment/promote/${d3.ID}`, { DeploymentID: d3.ID, All: true }), { primary: true })}
    ${paused ? button("Resume", "The deployment goes on.", act(at`/v1/deployment/pause/${d3.ID}`, { DeploymentID: d3.ID, Pause: false })) : button("Pause", "No further allocation is replaced until the deployment is resumed.", act(at`/v1/deployment/pause/${d3.ID}`, { DeploymentID: d3.ID, Pause: true }))}
    ${button("Fail", groups2.some((g3) => g3.AutoRevert) ? "The deployment ends as failed, and the job reverts to its last stable version." : "The deployment ends as failed. Its allocations stay as they are.", act(at`/v1/deployment/fail/${d3.ID}`, void 0), { danger: true })}`;
}

// app/pages/job/deployments.js
function Deployments({ job, namespace }) {
  const { data, error, refresh } = useQuery(at`/v1/job/${job.ID}/deployments`, { params: { namespace }, topics: [`Deployment:${job.ID}`] });
  const newest = [...data ?? []].sort((a3, b2) => b2.CreateIndex - a3.CreateIndex);
  return html`
    <${Failure} error=${error} what="the deployments" />
    ${data === void 0 && !error && html`<${Loading} />`}
    ${data !== void 0 && newest.length === 0 && html`<${Empty}>This job has no deployments. Service jobs with an <code>update</code> block have them.<//>`}
    ${newest.map((d3) => html`<${DeploymentPanel} key=${d3.ID} deployment=${d3} refresh=${refresh} />`)}`;
}

// app/pages/job/evaluations.js
var COLUMNS10 = [
  { label: "ID", head: true, cell: (e3) => html`<a href=${evalHref(e3.ID)}><${Code} of=${shortID(e3.ID)} /></a>` },
  { label: "Status", kind: "narrow", cell: (e3) => html`<${Status} of=${e3.Status} />` },
  { label: "Triggered by", cell: (e3) => e3.TriggeredBy },
  { label: "Priority", kind: "number", cell: (e3) => e3.Priority },
  { label: "Not placed", cell: (e3) => html`<${Name} of=${Object.keys(e3.FailedTGAllocs ?? {}).join(", ") || "–"} />` },
  { label: "Created", kind: "narrow", cell: (e3) => html`<${Ago} at=${e3.CreateTime} />` }
];
function Evaluations2({ job, namespace }) {
  return html`<${List} path=${at`/v1/evaluations`} what="evaluations" params=${{ namespace, reverse: true }} filter=${`JobID == ${quote(job.ID)}`}
    columns=${COLUMNS10} rowKey=${(e3) => e3.ID} topics=${[`Evaluation:${job.ID}`]} />`;
}

// app/pages/job/logs.js
var NEWEST = 50;
function JobLogs({ job, namespace }) {
  const { data, error, next } = useQuery(at`/v1/allocations`, {
    params: { namespace, reverse: true, per_page: NEWEST, filter: `JobID == ${quote(job.ID)}`, task_states: true },
    topics: [`Allocation:${job.ID}`]
  });
  if (!data) return error ? html`<${Failure} error=${error} what="the allocations" />` : html`<${Loading} />`;
  const rank = (a3) => a3.ClientStatus === "running" ? 0 : 1;
  const sources = data.toSorted((a3, b2) => rank(a3) - rank(b2)).flatMap((a3) => Object.entries(a3.TaskStates ?? {}).filter(([, state]) => toDate(state.StartedAt)).map(([task, state]) => ({
    key: `${a3.ID} ${task}`,
    label: `${shortID(a3.ID)} ${task}`,
    alloc: a3.ID,
    namespace: a3.Namespace,
    task,
    ended: state.State === "dead"
  })));
  return html`<${Failure} error=${error} what="the allocations" />
    <${Logs} sources=${sources} />
    ${next && html`<p class="muted small">The tasks are those of the newest ${plural(NEWEST, "allocation")}. The page of an allocation has its own logs.</p>`}`;
}

// app/pages/job/overview.js
function Overview2({ job, summary, namespace, refresh }) {
  return html`
    <${About4} job=${job} />
    <${Facts} rows=${[
    ["ID", html`<${Code} of=${job.ID} />`],
    ["Version", String(job.Version)],
    ["Submitted", html`<${Ago} at=${job.SubmitTime} />`],
    ["Priority", String(job.Priority)],
    ["Node pool", html`<${Name} of=${job.NodePool} />`],
    ["Datacenters", html`<${Name} of=${(job.Datacenters ?? []).join(", ")} />`],
    ["Schedule", schedule2(job)],
    ["Status", job.StatusDescription]
  ]} />
    <${Unplaced} job=${job} namespace=${namespace} />
    <${Latest} job=${job} namespace=${namespace} />
    ${job.Periodic?.Enabled || job.ParameterizedJob ? html`<${Children} job=${job} summary=${summary} namespace=${namespace} />` : html`<${Groups} job=${job} summary=${summary} refresh=${refresh} />`}`;
}
var schedule2 = (job) => job.Periodic?.Enabled ? html`<${Code} of=${[job.Periodic.Spec, ...job.Periodic.Specs ?? []].filter(Boolean).join("; ")} /> ${job.Periodic.TimeZone}` : null;
function About4({ job }) {
  if (!job.UI?.Description && !job.UI?.Links?.length) return null;
  return html`<div class="about">
    ${job.UI.Description && html`<p><bdi>${job.UI.Description}</bdi></p>`}
    ${(job.UI.Links ?? []).map((link) => {
    const address = webAddress(link.URL ?? link.Url);
    return address && html`<a href=${address} target="_blank" rel="noreferrer"><${Name} of=${link.Label || address} /><${Icon} name="link" /></a>`;
  })}
  </div>`;
}
function Unplaced({ job, namespace }) {
  const { data } = useQuery(at`/v1/evaluations`, {
    params: { namespace, filter: `JobID == ${quote(job.ID)}`, reverse: true, per_page: 10 },
    topics: [`Evaluation:${job.ID}`]
  });
  const newest = (data ?? []).find((e3) => e3.Status === "blocked") ?? (data ?? []).find((e3) => e3.Status === "complete");
  const failed = Object.entries(newest?.FailedTGAllocs ?? {});
  if (job.Stop || failed.length === 0) return null;
  return html`<${Section} title="Not placed">${failed.map(([group, metric]) => html`<${Placement} group=${group} metric=${metric} />`)}<//>`;
}
function Latest({ job, namespace }) {
  const { data, refresh } = useQuery(at`/v1/job/${job.ID}/deployment`, { params: { namespace }, topics: [`Deployment:${job.ID}`] });
  if (!data?.ID || data.JobVersion !== job.Version || data.Status === "successful") return null;
  return html`<${Section} title="Deployment"><${DeploymentPanel} key=${data.ID} heading="h3" deployment=${data} refresh=${refresh} /><//>`;
}
function Groups({ job, summary, refresh }) {
  const columns3 = [
    { label: "Group", head: true, cell: (g3) => html`<${Name} of=${g3.Name} />` },
    { label: "Count", kind: "number", cell: (g3) => g3.Count },
    { label: "Allocations", cell: (g3) => html`<${Bar} label="Allocations" parts=${allocParts({ ...EMPTY2, ...summary?.Summary?.[g3.Name] })} />` },
    { label: "Tasks", cell: (g3) => g3.Tasks.map((t4) => html`<span class="tag"><${Name} of=${t4.Name} /> <span class="muted">${t4.Driver}</span></span> `) },
    { label: "Actions", kind: "narrow", cell: (g3) => html`<${DialogButton} label="Scale" disabled=${job.Stop || job.Type === "system" || job.Type === "sysbatch"}
      dialog=${(close) => html`<${ScaleDialog} job=${job} group=${g3} onClose=${close} onDone=${refresh} />`} />` }
  ];
  return html`<${Section} title="Groups"><${Table} caption="Groups" columns=${columns3} rows=${job.TaskGroups} rowKey=${(g3) => g3.Name} /><//>`;
}
var EMPTY2 = { Queued: 0, Starting: 0, Running: 0, Unknown: 0, Failed: 0, Lost: 0, Complete: 0 };
function Children({ job, summary, namespace }) {
  const { data } = useQuery(at`/v1/jobs`, { params: { namespace, prefix: `${job.ID}/`, filter: `ParentID == ${quote(job.ID)}`, per_page: 20, reverse: true }, topics: ["Job", "Allocation"], namespace });
  const rows = data ?? [];
  const n3 = summary?.Children;
  const columns3 = [
    { label: "Run", head: true, cell: (j2) => html`<a href=${jobHref(j2.ID, namespace)}><${Name} of=${j2.ID.slice(job.ID.length + 1)} /></a>` },
    { label: "Status", kind: "narrow", cell: (j2) => html`<${Status} of=${jobStatus(j2)} />` },
    { label: "Submitted", kind: "narrow", cell: (j2) => html`<${Ago} at=${j2.SubmitTime} />` }
  ];
  return html`<${Section} title="Runs">
    ${n3 && html`<p>${plural(n3.Running, "run")} now, ${n3.Pending} pending, ${n3.Dead} ended.</p>`}
    ${rows.length > 0 ? html`<${Table} caption="Runs" columns=${columns3} rows=${rows} rowKey=${(j2) => j2.ID} />` : html`<p class="muted">No run is stored.</p>`}
  <//>`;
}

// app/parts/diff.js
var MARKS = { Added: ["+", "ok", "added"], Deleted: ["−", "bad", "removed"], Edited: ["~", "warn", "changed"] };
function JobDiff({ diff }) {
  const parts = [...lines(diff), ...(diff.TaskGroups ?? []).flatMap((g3) => block("group", g3, [...lines(g3), ...(g3.Tasks ?? []).flatMap((t4) => block("task", t4, lines(t4)))]))];
  if (parts.length === 0) return html`<p class="muted">No differences.</p>`;
  return html`<ul class="diff">${parts}</ul>`;
}
function lines(part) {
  return [
    ...(part.Fields ?? []).filter(differs).map((f3) => html`<li><${Mark} type=${f3.Type} /><${Code} of=${f3.Name} />: <${Change} field=${f3} />${(f3.Annotations ?? []).map((a3) => html` <span class="tag">${a3}</span>`)}</li>`),
    ...(part.Objects ?? []).flatMap((o3) => block("", o3, lines(o3)))
  ];
}
var differs = (part) => part.Type in MARKS;
function block(kind, part, inside) {
  if (inside.length === 0 && !differs(part)) return [];
  return [html`<li><${Mark} type=${part.Type} />${kind && `${kind} `}<strong><${Code} of=${part.Name} /></strong><ul class="diff">${inside}</ul></li>`];
}
function Mark({ type }) {
  const [sign, tone, word2] = MARKS[type] ?? ["", "idle", ""];
  return html`<span class="diff-mark" data-tone=${tone} aria-hidden="true">${sign}</span>${word2 && html`<span class="hidden">${word2}: </span>`}`;
}
function Change({ field }) {
  if (field.Type === "Added") return html`<ins><${Code} of=${field.New} /></ins>`;
  if (field.Type === "Deleted") return html`<del><${Code} of=${field.Old} /></del>`;
  return html`<del><${Code} of=${field.Old} /></del> → <ins><${Code} of=${field.New} /></ins>`;
}

// app/pages/job/versions.js
function Versions({ job, namespace, refresh }) {
  const { data, error } = useQuery(at`/v1/job/${job.ID}/versions`, { params: { namespace, diffs: true }, topics: [`Job:${job.ID}`] });
  return html`
    <${Failure} error=${error} what="the versions" />
    ${data === void 0 && !error && html`<${Loading} />`}
    ${(data?.Versions ?? []).map((v3, i3) => html`<article class="panel" key=${v3.Version}>
      <div class="panel-head">
        <h2>Version ${v3.Version}</h2>
        ${v3.Version === job.Version && html`<span class="tag">current</span>`}${v3.Stable && html`<span class="tag">stable</span>`}${v3.Stop && html`<span class="tag">stopped</span>`}
        ${v3.VersionTag?.Name && html`<span class="tag">tag <${Name} of=${v3.VersionTag.Name} /></span>`}
        <span class="muted small"><${Ago} at=${v3.SubmitTime} /></span>
        <div class="actions">${v3.Version !== job.Version && html`<${DialogButton} label="Revert to this" dialog=${(close) => html`<${Revert} job=${job} version=${v3.Version} onClose=${close} onDone=${refresh} />`} />`}</div>
      </div>
      ${data.Diffs?.[i3] ? html`<${JobDiff} diff=${data.Diffs[i3]} />` : html`<p class="muted">The oldest version that is stored.</p>`}
    </article>`)}`;
}
function Revert({ job, version, onClose, onDone }) {
  const [seen] = d2(job.Version);
  async function confirm() {
    await expect(api.put(at`/v1/job/${job.ID}/revert`, { JobID: job.ID, JobVersion: version, EnforcePriorVersion: seen }, { namespace: job.Namespace }));
    await onDone();
  }
  return html`<${Dialog} title=${`Revert to version ${version}?`} action="Revert" onClose=${onClose} onConfirm=${confirm}>
    <p>Version ${version} of <strong><${Name} of=${job.Name} /></strong> is registered as a new version and deployed.</p>
  <//>`;
}

// app/pages/job.js
var TABS4 = {
  "": ["Overview", Overview2],
  allocations: ["Allocations", Allocations],
  logs: ["Logs", JobLogs],
  deployments: ["Deployments", Deployments],
  versions: ["Versions", Versions],
  evaluations: ["Evaluations", Evaluations2],
  definition: ["Definition", Definition]
};
function Job({ params }) {
  const { id, namespace } = parseJob(params.job);
  const asked = params.tab ?? "";
  const group = Object.hasOwn(TABS4, asked) ? null : asked;
  const current = group === null ? asked : "allocations";
  const [, Tab] = TABS4[current];
  const job = useQuery(at`/v1/job/${id}`, { params: { namespace }, topics: [`Job:${id}`] });
  const parent = job.data?.Periodic || job.data?.ParameterizedJob;
  const summary = useQuery(at`/v1/job/${id}/summary`, { params: { namespace }, topics: parent ? ["Job", "Allocation"] : [`Allocation:${id}`, `Job:${id}`] });
  const crumbs = [{ href: "/ui/jobs", label: "Jobs" }, ...job.data?.ParentID ? [{ href: jobHref(job.data.ParentID, namespace), label: job.data.ParentID }] : []];
  const links = Object.entries(TABS4).map(([tab, [label]]) => ({ href: jobHref(id, namespace, tab), label }));
  const tabs = html`<${Tabs} label="Parts of the job" tabs=${links} current=${jobHref(id, namespace, current)} />`;
  const shown = job.data && { ...job.data, Periodic: job.data.Periodic?.Enabled, ParameterizedJob: job.data.ParameterizedJob, JobSummary: summary.data };
  const refresh = () => Promise.all([job.refresh(), summary.refresh()]);
  return html`<${Page} title=${job.data?.Name ?? id} crumbs=${crumbs} tabs=${tabs}
    status=${shown && html`<${Status} of=${jobStatus(shown)} /><span class="tag">${kindOf(shown)}</span><span class="tag">namespace <${Name} of=${namespace} /></span>`}
    actions=${shown && html`<${JobActions} job=${job.data} onDone=${refresh} />`}>
    <${Failure} error=${job.error} what="this job" />
    ${!job.data && !job.error && html`<${Loading} />`}
    ${job.data && group !== null && html`<${Group2} job=${job.data} namespace=${namespace} name=${group} />`}
    ${job.data && html`<${Tab} job=${job.data} group=${hasGroup(job.data, group) ? group : null} summary=${summary.data} namespace=${namespace} refresh=${refresh} />`}
  <//>`;
}
var hasGroup = (job, name2) => name2 !== null && job.TaskGroups.some((g3) => g3.Name === name2);
function Group2({ job, namespace, name: name2 }) {
  if (!hasGroup(job, name2)) return html`<${Notice} tone="warn">The job has no group and no page <${Name} of=${name2} />. These are all its allocations.<//>`;
  return html`<${Notice}>These are the allocations of the group <${Name} of=${name2} />. <a href=${jobHref(job.ID, namespace, "allocations")}>All allocations of the job</a><//>`;
}

// app/pages/keyring.js
var LOOKS2 = { active: ["ok", "ok"], prepublished: ["info", "wait"], rekeying: ["warn", "wait"], inactive: ["idle", "off"], deprecated: ["idle", "off"] };
var MEANING = {
  active: "signs and encrypts",
  prepublished: "published, signs later",
  rekeying: "its variables are encrypted again",
  inactive: "verifies and decrypts only",
  deprecated: "verifies and decrypts only"
};
var BUILT_IN = "aead";
function Keyring() {
  const { data, error, refresh } = useQuery(at`/v1/operator/keyring/keys`);
  const keys = [...data ?? []].sort((a3, b2) => b2.CreateTime - a3.CreateTime);
  const moving = keys.some((k3) => k3.State === "rekeying");
  return html`<${Page} title="Keyring" actions=${data && html`<button type="button" class="button" onClick=${refresh}>Read again</button>
      <${DialogButton} label="Rotate" primary dialog=${(close) => html`<${Rotate} onClose=${close} onDone=${refresh} />`} />`}>
    <p>Root keys sign the identities of tasks and nodes, and encrypt variables. Verifiers get the public keys from${" "}
      <a href="/.well-known/jwks.json" target="_blank" rel="noreferrer">/.well-known/jwks.json<${Icon} name="link" /></a>.</p>
    <${Failure} error=${error} what="the keyring" />
    ${!data && !error && html`<${Loading} />`}
    ${moving && html`<${Notice} tone="info" title="Variables are being encrypted again.">${count(keys.filter((k3) => k3.State === "rekeying").reduce((n3, k3) => n3 + (k3.Variables ?? 0), 0))} remain.<//>`}
    ${keys.filter((k3) => k3.Closed).map((k3) => html`<${Notice} tone="bad" title=${html`The server has not unwrapped key <${Code} of=${k3.KeyID} />.`}><bdi>${k3.Closed}</bdi><//>`)}
    ${keys.length > 0 && html`<${Table} caption="root keys" columns=${columns2(refresh)} rows=${keys} rowKey=${(k3) => k3.KeyID} />`}
  <//>`;
}
var columns2 = (refresh) => [
  { label: "Key", head: true, cell: (k3) => html`<${Code} of=${k3.KeyID} />` },
  { label: "State", cell: (k3) => html`<${Status} of=${k3.State} tone=${LOOKS2[k3.State]?.[0]} icon=${LOOKS2[k3.State]?.[1]} /><div class="muted small">${MEANING[k3.State] ?? ""}</div>` },
  { label: "Created", kind: "narrow", cell: (k3) => html`<${Ago} at=${k3.CreateTime} />` },
  { label: "Signs from", kind: "narrow", cell: (k3) => k3.PublishTime > 0 ? html`<${Ago} at=${k3.PublishTime} />` : "–" },
  { label: "Variables", kind: "number", cell: (k3) => count(k3.Variables) },
  { label: "Wrapped by", cell: (k3) => html`<${Name} of=${(k3.WrappedBy ?? []).map((id) => id === BUILT_IN ? "built in" : id).join(", ") || "–"} />` },
  { label: "Actions", kind: "narrow", cell: (k3) => k3.State !== "active" && html`<${DialogButton} label="Remove" danger dialog=${(close) => html`<${Remove} root=${k3} onClose=${close} onDone=${refresh} />`} />` }
];
function Rotate({ onClose, onDone }) {
  const [full, setFull] = d2(false);
  const [hours, setHours] = d2("");
  const delay = hours === "" ? 0 : /^\d{1,4}$/.test(hours) ? Number(hours) : -1;
  const fault = delay < 0 ? "Use a whole number of hours, or nothing." : delay > 0 && full ? "A key that signs later cannot encrypt now." : null;
  async function confirm() {
    const publish = delay > 0 ? String(BigInt(Date.now() + delay * 36e5) * 1000000n) : null;
    await api.put(at`/v1/operator/keyring/rotate`, void 0, { full: full || null, publish_time: publish });
    await onDone();
  }
  return html`<${Dialog} title="Rotate the root key?" action="Rotate" onClose=${onClose} onConfirm=${confirm} ready=${!fault}>
    <p>A new key is created. Existing tokens stay valid: the current key goes on verifying them.</p>
    <${Field} label="Hours until the new key signs" value=${hours} onInput=${setHours} inputmode="numeric" error=${fault}
      hint="Nothing: it signs now. Otherwise it is published first, so that verifiers know it before it signs." />
    <${Check} label="Also encrypt all variables again with the new key" checked=${full} onChange=${setFull} />
  <//>`;
}
function Remove({ root, onClose, onDone }) {
  async function confirm() {
    await api.del(at`/v1/operator/keyring/key/${root.KeyID}`);
    await onDone();
  }
  return html`<${Dialog} title="Remove the root key?" action="Remove" danger onClose=${onClose} onConfirm=${confirm}>
    <p>Key <${Code} of=${root.KeyID} /> is removed, if no allocation, no node and no variable uses it. ${root.Variables > 0 ? `It encrypts ${plural(root.Variables, "variable")}.` : ""}</p>
    <p class="muted">Only <code>nomad operator root keyring remove -force</code> removes a key that is in use.</p>
  <//>`;
}

// app/parts/nodemap.js
var LEVELS = ["strict", "restricted", "baseline", "host", "none"];
var FEW = 48;
function levelOf(node) {
  const levels = Object.entries(node.Drivers ?? {}).filter(([, d3]) => d3.Healthy).map(([name2, d3]) => d3.Attributes?.[`driver.${name2}.level`] ?? "none");
  return LEVELS.find((level) => levels.includes(level)) ?? "none";
}
function nodeStatus(node) {
  if (node.Status !== "ready") return node.Status;
  if (node.Drain) return "draining";
  return node.SchedulingEligibility === "ineligible" ? "ineligible" : "ready";
}
var ICONS2 = { ready: null, draining: "wait", ineligible: "off", down: "bad", disconnected: "warn", initializing: "wait" };
function NodeMap({ nodes }) {
  const pools = Map.groupBy(nodes, (n3) => n3.NodePool);
  const shown = LEVELS.filter((level) => nodes.some((n3) => levelOf(n3) === level));
  return html`
    ${[...pools].sort().map(([pool, members]) => html`<div class="pool">
      ${pools.size > 1 && html`<h3>Pool <${Name} of=${pool} /></h3>`}
      <ul class="cells" data-size=${nodes.length > FEW ? "small" : "large"}>${members.map((n3) => html`<li key=${n3.ID}><${Cell} node=${n3} small=${nodes.length > FEW} /></li>`)}</ul>
    </div>`)}
    <div class="legend">
      <span>Isolation:</span>${shown.map((level) => html`<span class="legend-item"><span class="swatch" data-level=${level}>${letter(level)}</span>${level}</span>`)}
      <span>The fill is the larger share of CPU and memory that is allocated.</span>
    </div>`;
}
var letter = (level) => level[0].toUpperCase();
function Cell({ node, small }) {
  const level = levelOf(node);
  const status = nodeStatus(node);
  const cpu = percent(node.Use?.CPU ?? 0, node.NodeResources?.Cpu?.CpuShares);
  const memory = percent(node.Use?.MemoryMB ?? 0, node.NodeResources?.Memory?.MemoryMB);
  const label = `${isolated(node.Name)}: ${status}, isolation ${level}, CPU ${cpu} %, memory ${memory} %, ${plural(node.Use?.Allocations ?? 0, "allocation")}`;
  return html`<a class="cell" href=${nodeHref(node.ID)} data-level=${level} data-status=${status} title=${label}>
    <span class="cell-fill" style=${{ height: `${Math.min(100, Math.max(cpu, memory))}%` }}></span>
    <span class="cell-mark" aria-hidden="true">${ICONS2[status] ? html`<${Icon} name=${ICONS2[status]} />` : letter(level)}</span>
    ${small ? html`<span class="hidden">${label}</span>` : html`<span class="cell-text"><strong><${Name} of=${node.Name} /></strong>
      ${status === "ready" ? html`<span class="small muted">isolation ${level}</span>` : html`<${Status} of=${status} />`}
      <span class="small muted">${cpu} % CPU · ${memory} % memory</span></span>`}
  </a>`;
}

// app/pages/node/drain.js
var SECONDS = { h: 3600, m: 60, s: 1 };
function parseDuration(text) {
  const parts = [...text.trim().matchAll(/(\d+(?:\.\d+)?)([hms])/g)];
  if (parts.length === 0 || parts.map((p3) => p3[0]).join("") !== text.trim()) return 0;
  const ns = parts.reduce((sum, [, n3, unit]) => sum + Number(n3) * SECONDS[unit], 0) * 1e9;
  return Number.isSafeInteger(Math.round(ns)) ? Math.round(ns) : 0;
}
var LIMITS = [["deadline", "Stop what is left at a deadline"], ["none", "Wait without a deadline"], ["now", "Stop all allocations now"]];
function DrainDialog({ node, onClose, onDone }) {
  const [limit, setLimit] = d2("deadline");
  const [text, setText] = d2("1h");
  const [ignore, setIgnore] = d2(false);
  const [message, setMessage] = d2("");
  const parsed = parseDuration(text);
  const fault = limit === "deadline" && parsed === 0 ? "Use a duration above zero, such as 1h30m." : null;
  async function confirm() {
    const deadline = { deadline: parsed, none: 0, now: -1 }[limit];
    await api.put(at`/v1/node/${node.ID}/drain`, { NodeID: node.ID, DrainSpec: { Deadline: deadline, IgnoreSystemJobs: ignore }, Meta: message ? { message } : {} });
    await onDone();
  }
  return html`<${Dialog} title=${node.DrainStrategy ? "Change the drain" : "Drain the node"} action="Drain" danger onClose=${onClose} onConfirm=${confirm} ready=${!fault}>
    <p>Allocations are moved away from <strong><${Name} of=${node.Name} /></strong>, as the <code>migrate</code> blocks of their jobs allow. Batch jobs may finish. The node is ineligible from now on.</p>
    <fieldset class="choices"><legend class="hidden">Deadline of the drain</legend>
      ${LIMITS.map(([value, label]) => html`<label><input type="radio" name="limit" value=${value} checked=${limit === value} onChange=${() => setLimit(value)} />${label}</label>`)}
    </fieldset>
    ${limit === "deadline" && html`<${Field} label="Deadline" value=${text} onInput=${setText} maxlength="20" error=${fault} />`}
    <${Check} label="Leave the allocations of system jobs" checked=${ignore} onChange=${setIgnore} />
    <${Field} label="Message, kept with the drain" value=${message} onInput=${setMessage} maxlength="200" />
  <//>`;
}
function CancelDialog({ node, onClose, onDone }) {
  const [keep, setKeep] = d2(false);
  async function confirm() {
    await api.put(at`/v1/node/${node.ID}/drain`, { NodeID: node.ID, DrainSpec: null, MarkEligible: !keep });
    await onDone();
  }
  return html`<${Dialog} title="Cancel the drain?" action="Cancel the drain" onClose=${onClose} onConfirm=${confirm}>
    <p>Allocations that have moved away from <strong><${Name} of=${node.Name} /></strong> do not come back.</p>
    <${Check} label="Keep the node ineligible" checked=${keep} onChange=${setKeep} />
  <//>`;
}
function Draining({ node, live: live2 }) {
  const drain = node.DrainStrategy;
  if (!drain) return null;
  const forced = drain.Deadline < 0;
  return html`<${Notice} tone="warn" title="The node is draining.">
    Begun <${Ago} at=${drain.StartedAt} />. ${live2 !== void 0 && html`${plural(live2, "allocation")} still on the node. `}
    ${forced ? "All allocations are stopped now." : drain.Deadline === 0 ? "There is no deadline." : html`What is left is stopped <${Ago} at=${drain.ForceDeadline} />.`}
    ${drain.IgnoreSystemJobs && " Allocations of system jobs stay."}
    ${node.LastDrain?.Meta?.message && html` Message: <${Name} of=${node.LastDrain.Meta.message} />`}
  <//>`;
}

// app/pages/node/actions.js
function NodeActions({ node, onDone }) {
  const draining = Boolean(node.DrainStrategy);
  const eligible = node.SchedulingEligibility === "eligible";
  return html`
    ${draining && html`<${DialogButton} key="cancel" label="Cancel drain" dialog=${(close) => html`<${CancelDialog} node=${node} onClose=${close} onDone=${onDone} />`} />`}
    ${node.Status !== "down" && html`<${DialogButton} key=${draining ? "change" : "drain"} label=${draining ? "Change drain" : "Drain"} danger dialog=${(close) => html`<${DrainDialog} node=${node} onClose=${close} onDone=${onDone} />`} />`}
    ${!draining && html`<${DialogButton} key=${eligible ? "ineligible" : "eligible"} label=${eligible ? "Make ineligible" : "Make eligible"} dialog=${(close) => html`<${Eligibility} node=${node} to=${eligible ? "ineligible" : "eligible"} onClose=${close} onDone=${onDone} />`} />`}
    ${node.Status === "down" && html`<${DialogButton} key="purge" label="Purge" danger dialog=${(close) => html`<${Purge} node=${node} onClose=${close} />`} />`}`;
}
function Eligibility({ node, to, onClose, onDone }) {
  async function confirm() {
    await api.put(at`/v1/node/${node.ID}/eligibility`, { NodeID: node.ID, Eligibility: to });
    await onDone();
  }
  return html`<${Dialog} title=${`Make the node ${to}?`} action=${`Make ${to}`} onClose=${onClose} onConfirm=${confirm}>
    ${to === "eligible" ? html`<p>New allocations can be placed on <strong><${Name} of=${node.Name} /></strong>.</p>` : html`<p>No new allocations are placed on <strong><${Name} of=${node.Name} /></strong>. Those that run stay.</p>`}
  <//>`;
}
function Purge({ node, onClose }) {
  async function confirm() {
    await api.put(at`/v1/node/${node.ID}/purge`);
    navigate("/ui/clients");
  }
  return html`<${Dialog} title="Purge the node?" action="Purge" danger onClose=${onClose} onConfirm=${confirm}>
    <p>The node <strong><${Name} of=${node.Name} /></strong> is removed from the state. If its agent still runs, it registers again.</p>
  <//>`;
}

// app/pages/node/allocations.js
function Allocations2({ node }) {
  return html`<${List} path=${at`/v1/allocations`} what="allocations" params=${{ reverse: true }} filter=${`NodeID == ${quote(node.ID)}`} namespaced
    columns=${allocColumns(["node"])} rowKey=${(a3) => a3.ID} search=${["ID", "JobID", "TaskGroup"]} facets=${ALLOC_FACETS} topics=${["Allocation"]}
    empty=${html`<p>No allocation was placed on this node.</p>`} />`;
}

// app/pages/node/attributes.js
var COLUMNS11 = [
  { label: "Attribute", head: true, cell: ([key]) => html`<${Code} of=${key} />` },
  { label: "Value", cell: ([, value]) => html`<${Code} of=${value} />` }
];
function Attributes({ node }) {
  const [text, setText] = d2("");
  const own = [["node.class", node.NodeClass], ["node.datacenter", node.Datacenter], ["node.pool", node.NodePool], ["node.unique.id", node.ID], ["node.unique.name", node.Name]];
  const attributes = Object.entries(node.Attributes ?? {}).map(([key, value]) => [`attr.${key}`, value]);
  const rows = [...own, ...attributes.sort(([a3], [b2]) => a3 < b2 ? -1 : 1)].filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(text.toLowerCase()));
  return html`<p class="muted">A constraint uses them as <code>${"${attr.kernel.name}"}</code>.</p>
    <div class="list-tools"><${Field} label="Filter" type="search" value=${text} onInput=${setText} maxlength="200" /></div>
    ${rows.length > 0 ? html`<${Table} caption="Attributes" columns=${COLUMNS11} rows=${rows} rowKey=${([key]) => key} />` : html`<${Empty}>No attribute matches the filter.<//>`}`;
}

// app/pages/node/metadata.js
function Metadata({ node, refresh }) {
  const parts = useQuery(node.Status === "ready" ? at`/v1/client/metadata` : null, { params: { node_id: node.ID }, topics: [`Node:${node.ID}`], namespace: "*" });
  const meta = parts.data?.Meta ?? node.Meta ?? {};
  const rows = Object.entries(meta).sort(([a3], [b2]) => a3 < b2 ? -1 : 1).map(([key, value]) => ({ key, value, dynamic: Object.hasOwn(parts.data?.Dynamic ?? {}, key) }));
  const done2 = () => Promise.all([parts.refresh(), refresh()]);
  const columns3 = [
    { label: "Key", head: true, cell: (r3) => html`<${Code} of=${r3.key} />` },
    { label: "Value", cell: (r3) => html`<${Code} of=${r3.value} />` },
    ...parts.data ? [
      { label: "Set by", kind: "narrow", cell: (r3) => r3.dynamic ? "a change" : "the configuration" },
      { label: "Actions", kind: "narrow", cell: (r3) => html`<div class="actions">
        <${DialogButton} label="Change" dialog=${(close) => html`<${Change2} node=${node} row=${r3} onClose=${close} onDone=${done2} />`} />
        <${DialogButton} label="Remove" danger dialog=${(close) => html`<${Remove2} node=${node} row=${r3} onClose=${close} onDone=${done2} />`} /></div>` }
    ] : []
  ];
  return html`
    <p class="muted">A constraint uses a key as <code>${"${meta.KEY}"}</code>.</p>
    <${Failure} error=${parts.error} what="the metadata from the node" />
    ${parts.data && html`<div class="list-tools"><${DialogButton} label="Add a key" primary dialog=${(close) => html`<${Change2} node=${node} onClose=${close} onDone=${done2} />`} /></div>`}
    ${rows.length > 0 ? html`<${Table} caption="Metadata" columns=${columns3} rows=${rows} rowKey=${(r3) => r3.key} />` : html`<${Empty}>This node has no metadata.<//>`}`;
}
var apply = (node, changes) => api.post(at`/v1/client/metadata`, { NodeID: node.ID, Meta: changes }, { node_id: node.ID });
function Change2({ node, row, onClose, onDone }) {
  const [key, setKey] = d2(row?.key ?? "");
  const [value, setValue] = d2(row?.value ?? "");
  async function confirm() {
    await apply(node, { [key]: value });
    await onDone();
  }
  return html`<${Dialog} title=${row ? "Change the value" : "Add a key"} action="Save" onClose=${onClose} onConfirm=${confirm} ready=${key.trim() !== ""}>
    <${Field} label="Key" value=${key} onInput=${setKey} readonly=${Boolean(row)} maxlength="500" />
    <${Field} label="Value" value=${value} onInput=${setValue} maxlength="4000" />
  <//>`;
}
function Remove2({ node, row, onClose, onDone }) {
  async function confirm() {
    await apply(node, { [row.key]: null });
    await onDone();
  }
  return html`<${Dialog} title="Remove the key?" action="Remove" danger onClose=${onClose} onConfirm=${confirm}>
    <p>The key <${Code} of=${row.key} /> is removed from the node. A value of the configuration stays removed after a restart.</p>
  <//>`;
}

// app/pages/node/identity.js
function Identity2({ node }) {
  const { data, error, refresh } = useQuery(node.Status === "ready" ? at`/v1/client/identity` : null, { params: { node_id: node.ID }, topics: [`Node:${node.ID}`], namespace: "*" });
  const claims = data?.Claims ?? {};
  const renew = async () => {
    await api.put(at`/v1/client/identity/renew`, { NodeID: node.ID }, { node_id: node.ID });
    await refresh();
  };
  const actions = data && html`<${DialogButton} label="Renew" dialog=${(close) => html`<${Dialog} title="Renew the identity?" action="Renew" onClose=${close} onConfirm=${renew}>
    <p>The node requests a new token with its next heartbeat. The old one stays valid until it expires.</p><//>`} />`;
  const time = (seconds) => seconds ? html`<${Ago} at=${seconds * 1e9} />` : null;
  return html`<${Section} title="Identity" actions=${actions}>
    <${Facts} rows=${[
    ["Signing key", node.IdentitySigningKeyID ? html`<${Code} of=${node.IdentitySigningKeyID} />` : "none: the node signs in by its secret"],
    ["Subject", claims.sub && html`<${Code} of=${claims.sub} />`],
    ["Audience", claims.aud && html`<${Name} of=${[claims.aud].flat().join(", ")} />`],
    ["Issued", time(claims.iat)],
    ["Expires", time(claims.exp)]
  ]} />
    ${error && html`<p class="muted">The node does not report its token: ${error.message}</p>`}
  <//>`;
}

// app/pages/node/use.js
var PERIOD = 1e4;
function Use2({ node, use }) {
  const stats = useQuery(node.Status === "ready" ? at`/v1/client/stats` : null, { params: { node_id: node.ID } });
  A2(() => {
    const timer2 = setInterval(() => document.hidden || stats.refresh(), PERIOD);
    return () => clearInterval(timer2);
  }, [stats.refresh]);
  const now = stats.data;
  const free = (path) => (node.NodeResources?.[path[0]]?.[path[1]] ?? 0) - (node.ReservedResources?.[path[0]]?.[path[1]] ?? 0);
  const disk = now?.AllocDirStats;
  const rows = [
    { name: "CPU", used: use?.CPU, all: free(["Cpu", "CpuShares"]), show: (v3) => `${count(v3)} MHz`, now: now?.CPU?.length > 0 && `${Math.round(now.CPU.reduce((sum, c3) => sum + c3.TotalPercent, 0) / now.CPU.length)} % of ${now.CPU.length} CPUs` },
    { name: "Memory", used: use?.MemoryMB, all: free(["Memory", "MemoryMB"]), show: mebibytes, now: now?.Memory && `${bytes(now.Memory.Used)} of ${bytes(now.Memory.Total)} used` },
    { name: "Disk", used: use?.DiskMB, all: free(["Disk", "DiskMB"]), show: mebibytes, now: disk && `${bytes(disk.Used)} of ${bytes(disk.Size)} used` }
  ];
  const actions = now && html`<span class="muted small">up for ${duration(now.Uptime)}</span>`;
  return html`<${Section} title="Use" actions=${actions}>
    <div class="compact use"><${Table} caption="Use of the node" columns=${COLUMNS12} rows=${rows} rowKey=${(r3) => r3.name} /></div>
    ${stats.error && html`<p class="muted">The node does not report what it measures: ${stats.error.message}</p>`}
  <//>`;
}
var COLUMNS12 = [
  { label: "Resource", head: true, cell: (r3) => r3.name },
  { label: "Allocated", cell: (r3) => r3.used === void 0 ? "–" : html`${percent(r3.used, r3.all)} %<span class="meter" aria-hidden="true"><span style=${{ width: `${Math.min(100, percent(r3.used, r3.all))}%` }}></span></span>` },
  { label: "For tasks", cell: (r3) => r3.used === void 0 ? r3.show(r3.all) : `${r3.show(r3.used)} of ${r3.show(r3.all)}` },
  { label: "Measured now", cell: (r3) => r3.now || "–" }
];

// app/pages/node/overview.js
var name = (text) => text ? html`<${Name} of=${text} />` : null;
var byName = (map) => Object.entries(map ?? {}).sort(([a3], [b2]) => a3 < b2 ? -1 : 1).map(([name2, value]) => ({ name: name2, ...value }));
function Overview3({ node }) {
  const stub = useQuery(at`/v1/nodes`, { params: { prefix: node.ID, use: true }, topics: ["Allocation", `Node:${node.ID}`], namespace: "*", gap: 3e3 });
  const use = stub.data?.find((n3) => n3.ID === node.ID)?.Use;
  const attributes = node.Attributes ?? {};
  return html`
    <${Draining} node=${node} live=${use?.Allocations} />
    <${Facts} rows=${[
    ["ID", html`<${Code} of=${node.ID} />`],
    ["Address", node.HTTPAddr && html`<${Code} of=${node.HTTPAddr} />`],
    ["Pool", html`<a href=${poolHref(node.NodePool)}><${Name} of=${node.NodePool} /></a>`],
    ["Datacenter", html`<${Name} of=${node.Datacenter} />`],
    ["Class", node.NodeClass && html`<${Name} of=${node.NodeClass} />`],
    ["Scheduling", node.SchedulingEligibility],
    ["Isolation", levelOf(node)],
    ["System", name([attributes["os.name"], attributes["os.version"]].filter(Boolean).join(" "))],
    ["Kernel", name(attributes["kernel.version"])],
    ["Version", name(attributes["nomad.version"])],
    ["Status", html`${node.StatusDescription && html`<bdi>${node.StatusDescription}</bdi>, `}since <${Ago} at=${node.StatusUpdatedAt * 1e9} />`],
    ["Last drain", node.LastDrain && html`${node.LastDrain.Status}, <${Ago} at=${node.LastDrain.UpdatedAt} />`]
  ]} />
    <${Use2} node=${node} use=${use} />
    <${Drivers} node=${node} /><${Volumes} node=${node} /><${Networks} node=${node} /><${Identity2} node=${node} /><${Events} node=${node} />`;
}
var health = (x2) => html`<${Status} of=${x2.Healthy ? "healthy" : "unhealthy"} />`;
var DRIVERS = [
  { label: "Driver", head: true, cell: (d3) => html`<${Name} of=${d3.name} />` },
  { label: "Health", kind: "narrow", cell: (d3) => d3.Detected || d3.Healthy ? health(d3) : html`<${Status} of="undetected" label="Not detected" icon="off" />` },
  { label: "Isolation", kind: "narrow", cell: (d3) => html`<${Name} of=${d3.Attributes?.[`driver.${d3.name}.level`] ?? "–"} />` },
  { label: "Description", cell: (d3) => html`<bdi>${d3.HealthDescription}</bdi>` },
  { label: "Changed", kind: "narrow", cell: (d3) => html`<${Ago} at=${d3.UpdateTime} />` }
];
function Drivers({ node }) {
  const rows = byName(node.Drivers);
  if (rows.length === 0) return html`<${Section} title="Drivers"><p class="muted">This node has no driver, so that it runs no tasks.</p><//>`;
  return html`<${Section} title="Drivers"><${Table} caption="Drivers" columns=${DRIVERS} rows=${rows} rowKey=${(d3) => d3.name} /><//>`;
}
var VOLUMES = [
  { label: "Volume", head: true, cell: (v3) => html`<${Name} of=${v3.name} />` },
  { label: "Kind", kind: "narrow", cell: (v3) => v3.ID ? "dynamic" : "of the configuration" },
  { label: "Access", kind: "narrow", cell: (v3) => v3.ReadOnly ? "read" : "read and write" },
  { label: "Path", cell: (v3) => html`<${Code} of=${v3.Path} />` }
];
function Volumes({ node }) {
  const rows = byName(node.HostVolumes);
  if (rows.length === 0) return null;
  return html`<${Section} title="Host volumes"><${Table} caption="Host volumes" columns=${VOLUMES} rows=${rows} rowKey=${(v3) => v3.name} /><//>`;
}
var NETWORKS = [
  { label: "Network", head: true, cell: (n3) => html`<${Name} of=${n3.name} />` },
  { label: "Addresses", cell: (n3) => html`<${Code} of=${n3.CIDR || n3.Interface || "–"} />` },
  { label: "Reserved ports", cell: (n3) => html`<${Code} of=${n3.ReservedPorts || "–"} />` }
];
function Networks({ node }) {
  const rows = byName(node.HostNetworks);
  if (rows.length === 0) return null;
  return html`<${Section} title="Host networks"><${Table} caption="Host networks" columns=${NETWORKS} rows=${rows} rowKey=${(n3) => n3.name} /><//>`;
}
function Events({ node }) {
  const events = [...node.Events ?? []].reverse();
  if (events.length === 0) return null;
  return html`<${Section} title="Events"><ol class="events">${events.map((e3) => html`<li>
    <span class="event-time muted"><${Ago} at=${e3.Timestamp} /></span><strong>${e3.Subsystem}</strong>
    <span><bdi>${e3.Message}</bdi>${Object.entries(e3.Details ?? {}).map(([key, value]) => html` <span class="tag"><${Name} of=${key} />: <${Name} of=${value} /></span>`)}</span></li>`)}</ol><//>`;
}

// app/pages/node.js
var TABS5 = { "": ["Overview", Overview3], allocations: ["Allocations", Allocations2], attributes: ["Attributes", Attributes], metadata: ["Metadata", Metadata] };
function Node({ params }) {
  const asked = params.tab ?? "";
  const current = Object.hasOwn(TABS5, asked) ? asked : "";
  const [, Tab] = TABS5[current];
  const { data: node, error, refresh } = useQuery(at`/v1/node/${params.id}`, { topics: [`Node:${params.id}`], namespace: "*" });
  const links = Object.entries(TABS5).map(([tab, [label]]) => ({ href: nodeHref(params.id, tab), label }));
  const tabs = html`<${Tabs} label=${`Parts of the node ${isolated(node?.Name ?? "")}`} tabs=${links} current=${nodeHref(params.id, current)} />`;
  return html`<${Page} title=${node?.Name ?? shortID(params.id)} crumbs=${[{ href: "/ui/clients", label: "Nodes" }]} tabs=${tabs}
    status=${node && html`<${Status} of=${nodeStatus(node)} /><span class="tag">pool <${Name} of=${node.NodePool} /></span>`}
    actions=${node && html`<${NodeActions} node=${node} onDone=${refresh} />`}>
    <${Failure} error=${error} what="this node" />
    ${!node && !error && html`<${Loading} />`}
    ${node && current !== asked && html`<${Notice} tone="warn">A node has no page <${Name} of=${asked} />.<//>`}
    ${node && html`<${Tab} node=${node} refresh=${refresh} />`}
  <//>`;
}

// app/pages/nodes.js
var MOST_POOLS = 200;
var FACETS4 = [
  { key: "status", label: "Status", options: ["ready", "initializing", "down", "disconnected"].map((s3) => ({ value: s3, label: s3[0].toUpperCase() + s3.slice(1), filter: `Status == "${s3}"` })) },
  { key: "scheduling", label: "Scheduling", options: [
    { value: "eligible", label: "Eligible", filter: 'SchedulingEligibility == "eligible"' },
    { value: "ineligible", label: "Ineligible", filter: 'SchedulingEligibility == "ineligible"' },
    { value: "draining", label: "Draining", filter: "DrainStrategy is not nil" }
  ] }
];
var share = (used, all2) => all2 > 0 ? html`<span class="share">${percent(used ?? 0, all2)} %<span class="meter" aria-hidden="true"><span style=${{ width: `${Math.min(100, percent(used ?? 0, all2))}%` }}></span></span></span>` : "–";
var COLUMNS13 = [
  { label: "Node", head: true, cell: (n3) => html`<a href=${nodeHref(n3.ID)}><${Name} of=${n3.Name} /></a><div class="muted small"><${Code} of=${shortID(n3.ID)} /> <${Name} of=${n3.Address} /></div>` },
  { label: "Status", kind: "narrow", cell: (n3) => html`<${Status} of=${nodeStatus(n3)} />` },
  { label: "CPU", kind: "narrow", cell: (n3) => share(n3.Use?.CPU, n3.NodeResources?.Cpu?.CpuShares) },
  { label: "Memory", kind: "narrow", cell: (n3) => share(n3.Use?.MemoryMB, n3.NodeResources?.Memory?.MemoryMB) },
  { label: "Allocations", kind: "number", cell: (n3) => n3.Use ? count(n3.Use.Allocations) : "–" },
  { label: "Isolation", kind: "narrow", cell: levelOf },
  { label: "Pool", cell: (n3) => html`<a href=${poolHref(n3.NodePool)}><${Name} of=${n3.NodePool} /></a>` },
  { label: "Datacenter", cell: (n3) => html`<${Name} of=${n3.Datacenter} />` },
  { label: "Class", cell: (n3) => html`<${Name} of=${n3.NodeClass || "–"} />` },
  { label: "Version", kind: "narrow", cell: (n3) => html`<${Name} of=${n3.Version} />` }
];
function Nodes2({ query }) {
  const pools = useQuery(at`/v1/node/pools`, { params: { per_page: MOST_POOLS, filter: 'Name != "all"' } });
  const chosen = query.get("pool");
  const names2 = /* @__PURE__ */ new Set([...(pools.data ?? []).map((p3) => p3.Name), ...chosen ? [chosen] : []]);
  const options = [...names2].map((name2) => ({ value: name2, label: name2, filter: `NodePool == ${quote(name2)}` }));
  const facets = [...FACETS4, { key: "pool", label: "Pool", options }];
  return html`<${Page} title="Nodes">
    ${(pools.data || pools.error) && html`<${List} path=${at`/v1/nodes`} what="nodes" params=${{ resources: true, use: true }} columns=${COLUMNS13} rowKey=${(n3) => n3.ID} search=${["Name", "ID", "HTTPAddr", "NodeClass", "Datacenter"]}
      facets=${facets} topics=${["Node", "Allocation"]} empty=${html`<p>No node has registered.</p><p>An agent with a <code>client</code> block is a node.</p>`} />`}
  <//>`;
}

// app/pages/overview.js
var MOST_NODES = 1e3;
var MOST_ROWS = 8;
function Overview4() {
  const nodes = useQuery(at`/v1/nodes`, { params: { resources: true, use: true, per_page: MOST_NODES }, topics: ["Node", "Allocation"], namespace: "*", gap: 3e3 });
  return html`<${Page} title="Overview">
    <${Failure} error=${nodes.error} what="the nodes" />
    ${nodes.data === void 0 && !nodes.error && html`<${Loading} />`}
    ${nodes.data && html`<${Totals} nodes=${nodes.data} /><${Nodes3} nodes=${nodes.data} more=${nodes.next !== ""} />`}
    <${Deployments2} /><${Blocked} /><${Failed} />
  <//>`;
}
function Totals({ nodes }) {
  const sum = (of) => nodes.reduce((total, n3) => total + (of(n3) ?? 0), 0);
  const ready = nodes.filter((n3) => n3.Status === "ready");
  const draining = nodes.filter((n3) => n3.Drain).length;
  const rows = [
    ["Nodes", `${count(ready.length)} of ${count(nodes.length)} ready`, draining > 0 ? `${draining} draining` : "", percent(ready.length, nodes.length)],
    ["CPU allocated", ...share2(sum((n3) => n3.Use?.CPU), sum((n3) => n3.NodeResources?.Cpu?.CpuShares), (v3) => `${count(v3)} MHz`)],
    ["Memory allocated", ...share2(sum((n3) => n3.Use?.MemoryMB), sum((n3) => n3.NodeResources?.Memory?.MemoryMB), mebibytes)],
    ["Allocations", count(sum((n3) => n3.Use?.Allocations)), "live on these nodes", null]
  ];
  return html`<dl class="totals">${rows.map(([term, value, detail, part]) => html`<div>
    <dt>${term}</dt><dd><span class="total">${value}</span> <span class="muted small">${detail}</span>
    ${part !== null && html`<span class="meter" aria-hidden="true"><span style=${{ width: `${part}%` }}></span></span>`}</dd></div>`)}</dl>`;
}
var share2 = (used, all2, show) => [`${percent(used, all2)} %`, `${show(used)} of ${show(all2)}`, Math.min(100, percent(used, all2))];
function Nodes3({ nodes, more }) {
  if (nodes.length === 0) return html`<${Section} title="Nodes"><${Empty}>No node has registered.<//><//>`;
  return html`<${Section} title="Nodes"><${NodeMap} nodes=${nodes} />
    ${more && html`<p class="muted">The first ${count(MOST_NODES)} nodes are shown.</p>`}<//>`;
}
function Deployments2() {
  const { data } = useQuery(at`/v1/deployments`, {
    params: { namespace: "*", filter: 'Status == "running" or Status == "paused" or Status == "blocked"', per_page: MOST_ROWS, reverse: true },
    topics: ["Deployment"]
  });
  const columns3 = [
    { label: "Job", head: true, cell: (d3) => html`<a href=${jobHref(d3.JobID, d3.Namespace, "deployments")}><${Name} of=${d3.JobID} /></a>` },
    { label: "Status", kind: "narrow", cell: (d3) => html`<${Status} of=${d3.Status} />` },
    { label: "Healthy", kind: "number", cell: (d3) => healthOf(d3) },
    { label: "Description", cell: (d3) => d3.StatusDescription },
    { label: "Began", kind: "narrow", cell: (d3) => html`<${Ago} at=${d3.CreateTime} />` }
  ];
  return html`<${Attention} title="Active deployments" rows=${data} columns=${columns3} />`;
}
function healthOf(deployment) {
  const groups2 = Object.values(deployment.TaskGroups ?? {});
  const sum = (key) => groups2.reduce((n3, g3) => n3 + g3[key], 0);
  return `${sum("HealthyAllocs")} of ${sum("DesiredTotal")}`;
}
function Blocked() {
  const { data } = useQuery(at`/v1/evaluations`, { params: { namespace: "*", filter: 'Status == "blocked"', per_page: MOST_ROWS, reverse: true }, topics: ["Evaluation"] });
  const columns3 = [
    { label: "Job", head: true, cell: (e3) => html`<a href=${jobHref(e3.JobID, e3.Namespace)}><${Name} of=${e3.JobID} /></a>` },
    { label: "Status", kind: "narrow", cell: (e3) => html`<${Status} of=${e3.Status} />` },
    { label: "Not placed", cell: (e3) => Object.entries(e3.FailedTGAllocs ?? {}).map(([group, m3]) => html`<div>${plural(1 + (m3.CoalescedFailures ?? 0), "allocation")} of group <${Name} of=${group} /></div>`) },
    { label: "Since", kind: "narrow", cell: (e3) => html`<${Ago} at=${e3.CreateTime} />` }
  ];
  return html`<${Attention} title="Waiting for a node" rows=${data} columns=${columns3} />`;
}
function Failed() {
  const { data } = useQuery(at`/v1/allocations`, { params: { namespace: "*", filter: 'ClientStatus == "failed" or ClientStatus == "lost"', per_page: MOST_ROWS, reverse: true }, topics: ["Allocation"], gap: 3e3 });
  const columns3 = [
    { label: "Job", head: true, cell: (a3) => html`<a href=${jobHref(a3.JobID, a3.Namespace, "allocations")}><${Name} of=${a3.JobID} /></a>` },
    { label: "Allocation", kind: "narrow", cell: (a3) => html`<a href=${allocHref(a3.ID)}><${Code} of=${shortID(a3.ID)} /></a>` },
    { label: "Status", kind: "narrow", cell: (a3) => html`<${Status} of=${a3.ClientStatus} />` },
    { label: "Node", cell: (a3) => html`<${Name} of=${a3.NodeName} />` },
    { label: "Changed", kind: "narrow", cell: (a3) => html`<${Ago} at=${a3.ModifyTime} />` }
  ];
  return html`<${Attention} title="Newest failed allocations" rows=${data} columns=${columns3} />`;
}
function Attention({ title, rows, columns: columns3 }) {
  if (!rows?.length) return null;
  return html`<${Section} title=${title}><${Table} caption=${title} columns=${columns3} rows=${rows} rowKey=${(r3) => r3.ID} /><//>`;
}

// app/pages/policy.js
var CRUMBS = [{ href: "/ui/administration", label: "Access control" }, { href: "/ui/administration/policies", label: "Policies" }];
var START = 'namespace "default" {\n  policy = "read"\n}\n';
function Policy({ params }) {
  return params.policy === "new" ? html`<${New} />` : html`<${Existing} name=${params.policy} />`;
}
function New() {
  return html`<${Page} title="Create a policy" crumbs=${CRUMBS}>
    <${PolicyForm} policy=${null} onCancel=${() => navigate("/ui/administration/policies")} onDone=${(name2) => navigate(policyHref(name2))} />
  <//>`;
}
function Existing({ name: name2 }) {
  const { data: p3, error, refresh } = useQuery(at`/v1/acl/policy/${name2}`, { topics: [`ACLPolicy:${name2}`] });
  const [editing, setEditing] = d2(false);
  async function done2() {
    setEditing(false);
    await refresh();
  }
  return html`<${Page} title=${name2} crumbs=${CRUMBS} actions=${p3 && !editing && html`<button type="button" class="button primary" onClick=${() => setEditing(true)}>Edit</button>
      <${DialogButton} label="Delete" danger dialog=${(close) => html`<${Delete2} name=${name2} onClose=${close} />`} />`}>
    <${Failure} error=${error} what="this policy" />
    ${!p3 && !error && html`<${Loading} />`}
    ${p3 && (editing ? html`<${PolicyForm} policy=${p3} onCancel=${() => setEditing(false)} onDone=${done2} />` : html`${p3.Description && html`<p><bdi>${p3.Description}</bdi></p>`}
        ${p3.JobACL && html`<p>Applies without a token to: <bdi>${appliesTo(p3.JobACL)}</bdi></p>`}
        <${Section} title="What it grants"><${Grants} rules=${p3.RulesJSON} /><//>
        <${Section} title="Text"><pre tabindex="0" aria-label="Text of the policy"><bdi>${p3.Rules}</bdi></pre><//>`)}
  <//>`;
}
function PolicyForm({ policy, onDone, onCancel }) {
  const [seen] = d2(policy);
  const [name2, setName] = d2(policy?.Name ?? "");
  const [description, setDescription] = d2(policy?.Description ?? "");
  const [rules, setRules] = d2(policy?.Rules ?? START);
  const [error, setError] = d2(null);
  const [other, setOther] = d2(null);
  const [overwrite, setOverwrite] = d2(false);
  const [busy, setBusy] = d2(false);
  async function save2(event) {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const current = await read2(name2);
      const known = other ?? seen;
      if ((current?.ModifyIndex ?? 0) !== (known?.ModifyIndex ?? 0) || other && !overwrite) {
        setOther(current ?? { ModifyIndex: 0, Rules: "" });
        setOverwrite(false);
        return;
      }
      await api.put(at`/v1/acl/policy/${name2}`, { Name: name2, Description: description, Rules: rules, JobACL: seen?.JobACL ?? void 0 });
      await onDone(name2);
    } catch (err) {
      setError(err);
    } finally {
      setBusy(false);
    }
  }
  return html`<form onSubmit=${save2}>
    ${!policy && html`<${Field} label="Name" value=${name2} onInput=${setName} maxlength="128" hint="Letters, digits and -" />`}
    <${Field} label="Description" value=${description} onInput=${setDescription} maxlength="256" />
    <${Field} label="Rules" type="textarea" class="policy-text" rows="18" value=${rules} onInput=${setRules} aria-invalid=${error ? "true" : null} />
    ${error && html`<${Notice} tone="bad" title="The policy was not written."><pre class="value"><bdi>${error.message}</bdi></pre><//>`}
    ${other && html`<${Notice} tone="warn" title="Someone else has written this policy.">Nothing was written. The stored text is:
      <pre class="value"><bdi>${other.Rules || "(the policy was deleted)"}</bdi></pre>
      <${Check} label="Replace it with my text" checked=${overwrite} onChange=${setOverwrite} /><//>`}
    <p class="actions form-actions">
      <button type="button" class="button" onClick=${onCancel}>Cancel</button>
      <button type="submit" class="button primary" disabled=${busy || !/^[a-zA-Z0-9-]{1,128}$/.test(name2) || name2 === "new" || other && !overwrite}>${policy ? "Save" : "Create"}</button>
    </p>
  </form>`;
}
async function read2(name2) {
  try {
    return (await api.get(at`/v1/acl/policy/${name2}`)).data;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}
function Delete2({ name: name2, onClose }) {
  async function confirm() {
    await api.del(at`/v1/acl/policy/${name2}`);
    navigate("/ui/administration/policies");
  }
  return html`<${Dialog} title="Delete the policy?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>Tokens and roles with policy <strong><${Name} of=${name2} /></strong> lose what it grants.</p>
  <//>`;
}

// app/pages/pools/dialog.js
var BUILT_IN2 = ["all", "default"];
var ALGORITHMS = [["", "As the cluster"], ["binpack", "Binpack: fill nodes"], ["spread", "Spread: use many nodes"]];
var MEMORY = [["", "As the cluster"], ["on", "Tasks may use more than they reserve"], ["off", "No oversubscription"]];
function PoolDialog({ pool, onClose, onDone }) {
  const [seen] = d2(pool);
  const [name2, setName] = d2(seen?.Name ?? "");
  const [description, setDescription] = d2(seen?.Description ?? "");
  const [algorithm, setAlgorithm] = d2(seen?.SchedulerConfiguration?.SchedulerAlgorithm ?? "");
  const over = seen?.SchedulerConfiguration?.MemoryOversubscriptionEnabled;
  const [memory, setMemory] = d2(over === true ? "on" : over === false ? "off" : "");
  async function confirm() {
    const config = algorithm || memory ? { SchedulerAlgorithm: algorithm, MemoryOversubscriptionEnabled: { on: true, off: false }[memory] ?? null } : null;
    await unchanged(name2, seen);
    await api.put(at`/v1/node/pools`, { Name: name2, Description: description, Meta: seen?.Meta ?? null, NodeIdentityTTL: seen?.NodeIdentityTTL ?? 0, SchedulerConfiguration: config });
    await onDone();
  }
  return html`<${Dialog} title=${seen ? "Change the node pool" : "Create a node pool"} action=${seen ? "Save" : "Create"} onClose=${onClose} onConfirm=${confirm} ready=${/^[\w-]{1,128}$/.test(name2)}>
    <${Field} label="Name" value=${name2} onInput=${setName} readonly=${Boolean(seen)} maxlength="128" hint="Letters, digits, hyphens and underscores" />
    <${Field} label="Description" value=${description} onInput=${setDescription} maxlength="256" />
    <${Select} label="Placement" value=${algorithm} options=${ALGORITHMS} onChange=${setAlgorithm} />
    <${Select} label="Memory" value=${memory} options=${MEMORY} onChange=${setMemory} />
  <//>`;
}
async function unchanged(name2, seen) {
  const now = await api.get(at`/v1/node/pools`, { prefix: name2 }).then(({ data }) => data.find((p3) => p3.Name === name2));
  if (!seen && now) throw new Error("A node pool of this name exists.");
  if (seen && now?.ModifyIndex !== seen.ModifyIndex) throw new Error("The node pool was changed since you opened this dialog. Close it and look at the pool again.");
}
function Select({ label, value, options, onChange }) {
  const id = P2();
  return html`<div class="field"><label for=${id}>${label}</label>
    <select id=${id} value=${value} onChange=${(e3) => onChange(e3.target.value)}>${options.map(([v3, text]) => html`<option value=${v3}>${text}</option>`)}</select></div>`;
}
function DeleteDialog({ pool, onClose, onDone }) {
  async function confirm() {
    await api.del(at`/v1/node/pool/${pool.Name}`);
    await onDone();
  }
  return html`<${Dialog} title="Delete the node pool?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>The pool <strong><${Name} of=${pool.Name} /></strong> is deleted. The servers refuse this while it has nodes or jobs.</p>
  <//>`;
}

// app/pages/pools.js
var done = async () => {
};
var COLUMNS14 = [
  { label: "Pool", head: true, cell: (p3) => html`<a href=${poolHref(p3.Name)}><${Name} of=${p3.Name} /></a>` },
  { label: "Description", cell: (p3) => html`<bdi>${p3.Description || "–"}</bdi>` },
  { label: "Scheduler", cell: (p3) => schedulerOf(p3.SchedulerConfiguration) },
  { label: "Lifetime of node identities", kind: "narrow", cell: (p3) => p3.NodeIdentityTTL ? nanoseconds(p3.NodeIdentityTTL) : "–" },
  { label: "Metadata", cell: (p3) => Object.entries(p3.Meta ?? {}).map(([key, value]) => html`<span class="tag"><${Name} of=${key} /> = <${Name} of=${value} /></span> `) },
  { label: "Actions", kind: "narrow", cell: (p3) => BUILT_IN2.includes(p3.Name) ? html`<span class="muted">built in</span>` : html`<div class="actions">
    <${DialogButton} label="Change" dialog=${(close) => html`<${PoolDialog} pool=${p3} onClose=${close} onDone=${done} />`} />
    <${DialogButton} label="Delete" danger dialog=${(close) => html`<${DeleteDialog} pool=${p3} onClose=${close} onDone=${done} />`} /></div>` }
];
function schedulerOf(config) {
  const over = config?.MemoryOversubscriptionEnabled;
  return [config?.SchedulerAlgorithm, over === true && "memory oversubscription", over === false && "no memory oversubscription"].filter(Boolean).join(", ") || "as the cluster";
}
function Pools() {
  return html`<${Page} title="Node pools" actions=${html`<${DialogButton} label="Create" primary dialog=${(close) => html`<${PoolDialog} onClose=${close} onDone=${done} />`} />`}>
    <p class="muted">A node is a member of the pool in its configuration (<code>client.node_pool</code>). All nodes are members of the pool <code>all</code>, too.</p>
    <${List} path=${at`/v1/node/pools`} what="node pools" columns=${COLUMNS14} rowKey=${(p3) => p3.Name} search=${["Name", "Description"]} topics=${["NodePool"]} />
  <//>`;
}

// app/pages/run/file.js
var MOST_BYTES = 1 << 20;
async function readFile(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} has ${file.size} bytes: a job file has 1 MiB at most.`);
  const text = await file.text();
  if (text.includes("\0")) throw new Error(`${file.name} is not a text file.`);
  return text;
}
var formatOf = (text) => text.trimStart().startsWith("{") ? "json" : "hcl2";
async function parseJob2({ source, variables, namespace }) {
  if (source.length + variables.length > MOST_BYTES) throw new Error('The file has more than 1 MiB. Use "nomad job run".');
  if (formatOf(source) === "hcl2") {
    const body = { JobHCL: source, Variables: variables, Canonicalize: true };
    const response = await send("PUT", at`/v1/jobs/parse`, { params: { namespace }, body });
    return exact(await response.text());
  }
  let value;
  try {
    value = exact(source);
  } catch (err) {
    throw err instanceof SyntaxError ? new Error(`The text begins with a brace, so it must be JSON: ${err.message}`) : err;
  }
  const job = value.Job ?? value;
  if (typeof job !== "object" || Array.isArray(job) || !job.ID) throw new Error('The JSON is not a job: it has no ID. Use the form of "nomad job run -output".');
  return job;
}
async function draftOf(id, namespace, version) {
  try {
    const { data } = await api.get(at`/v1/job/${id}/submission`, { namespace, version });
    return { source: data.Source, variables: variablesOf(data), namespace };
  } catch (err) {
    if (err.status !== 404) throw err;
    const response = await send("GET", at`/v1/job/${id}`, { params: { namespace } });
    return { source: JSON.stringify({ Job: exact(await response.text()) }, null, 2), variables: "", namespace };
  }
}
function variablesOf({ Variables: text, VariableFlags: flags }) {
  const lines2 = Object.entries(flags ?? {}).sort().map(([name2, value]) => `${name2} = ${JSON.stringify(value).replace(/([$%])\{/g, "$1$1{")}`);
  return [text?.trimEnd(), ...lines2].filter(Boolean).join("\n");
}
function exact(text) {
  return JSON.parse(text, function check(key, value) {
    if (!Number.isInteger(value) || Number.isSafeInteger(value)) return value;
    if (key === "SubmitTime" && "TaskGroups" in this || key === "TaggedTime" && "Description" in this) return void 0;
    throw new Error(`The number ${value} of ${JSON.stringify(key)} is too large for a browser. Use "nomad job run".`);
  });
}

// app/pages/run/plan.js
var KINDS = { Added: "The job is new.", Edited: "The job is changed.", None: "The job does not change.", Deleted: "The job is removed." };
function Plan({ plan }) {
  const { job, namespace, reply } = plan;
  const failed = Object.entries(reply.FailedTGAllocs ?? {}).sort(([a3], [b2]) => a3 < b2 ? -1 : 1);
  const updates = Object.entries(reply.Annotations?.DesiredTGUpdates ?? {}).filter(([, u3]) => u3).map(([group, u3]) => ({ group, ...u3 }));
  const load = b((token) => api.put(at`/v1/job/${job.ID}/explain`, { Job: job }, { namespace, per_page: EXPLAIN_PAGE, next_token: token }), [plan]);
  const next = reply.NextPeriodicLaunch && !reply.NextPeriodicLaunch.startsWith("0001");
  return html`
    <${Section} title="Plan">
      ${reply.Warnings && html`<${Notice} tone="warn" title="Warnings"><bdi class="lines">${reply.Warnings}</bdi><//>`}
      ${failed.length === 0 ? html`<${Notice} tone="ok">Each allocation can be placed.<//>` : failed.map(([group, metric]) => html`<${Placement} key=${group} group=${group} metric=${metric} />`)}
      <${Facts} rows=${[
    ["Job", reply.JobModifyIndex > 0 ? html`<a href=${jobHref(job.ID, namespace)}><${Name} of=${job.ID} /></a>` : html`<${Name} of=${job.ID} />`],
    ["Namespace", html`<${Name} of=${namespace} />`],
    ["Changes", KINDS[reply.Diff?.Type] ?? null],
    ["Job modify index", String(reply.JobModifyIndex)],
    ["Next periodic run", next ? html`<${Ago} at=${reply.NextPeriodicLaunch} />` : null]
  ]} />
    <//>
    ${updates.length > 0 && html`<${Section} title="Allocations"><${Updates} rows=${updates} /><//>`}
    ${reply.Diff && html`<${Section} title="Difference"><div class="panel"><${JobDiff} diff=${reply.Diff} /></div><//>`}
    ${reply.Isolation?.length > 0 && html`<${Section} title="Isolation"><div class="compact"><${Table} caption="Isolation of the tasks" columns=${ISOLATION} rows=${reply.Isolation} rowKey=${(t4) => `${t4.TaskGroup} ${t4.Task}`} /></div><//>`}
    <${Section} title="Nodes"><p class="muted">Each node is checked for one more allocation of each group.</p><${Explain} load=${load} /><//>`;
}
var ISOLATION = [
  { label: "Task", head: true, cell: (t4) => html`<${Name} of=${t4.Task} />` },
  { label: "Group", cell: (t4) => html`<${Name} of=${t4.TaskGroup} />` },
  { label: "At most", kind: "narrow", cell: (t4) => t4.Level || "–" },
  { label: "On the nodes", cell: (t4) => Object.entries(t4.Nodes ?? {}).sort().map(([level, n3]) => `${level} on ${n3}`).join(", ") || "no node can run it" }
];

// app/pages/run.js
var VARIABLES = 'Values for the variable blocks of the file, one on each line: name = "value"';
var EMPTY3 = { source: "", variables: "", namespace: "" };
var kept = EMPTY3;
function Run({ query }) {
  const [draft, setDraft] = d2(kept);
  const [plan, setPlan] = d2(null);
  const [error, setError] = d2(null);
  const [busy, setBusy] = d2("");
  const change = (part) => {
    kept = { ...kept, ...part };
    setDraft(kept);
    setPlan(null);
    setError(null);
  };
  async function act(name2, fn) {
    setBusy(name2);
    setError(null);
    try {
      await fn();
    } catch (err) {
      setError({ title: TITLES[name2], message: err.message });
    }
    setBusy("");
  }
  A2(() => {
    const [job, namespace, version] = ["job", "namespace", "version"].map((key) => query.get(key));
    if (!job) return;
    replaceQuery({ job: null, namespace: null, version: null });
    act("load", async () => change(await draftOf(job, namespace || "default", version)));
  }, []);
  const makePlan = () => act("plan", async () => {
    setPlan(null);
    const of = kept;
    const job = await parseJob2(of);
    const namespace = of.namespace || job.Namespace || "default";
    const { data } = await api.put(at`/v1/job/${job.ID}/plan`, { Job: job, Diff: true }, { namespace });
    if (of === kept) setPlan({ job, namespace, reply: data });
  });
  const run2 = () => act("run", async () => {
    const { job, namespace, reply } = plan;
    const submission = { Source: draft.source, Format: formatOf(draft.source), Variables: draft.variables };
    await api.put(at`/v1/jobs`, { Job: job, EnforceIndex: true, JobModifyIndex: reply.JobModifyIndex, Submission: submission }, { namespace }).catch((err) => {
      throw err.message.includes("modify index") ? new Error(`The job was changed since this plan. Plan again to see what differs now.
${err.message}`) : err;
    });
    kept = EMPTY3;
    navigate(jobHref(job.ID, namespace));
  });
  const empty = draft.source.trim() === "";
  return html`<${Page} title="Run a job" crumbs=${[{ href: "/ui/jobs", label: "Jobs" }]}>
    <form class="run" onSubmit=${(e3) => {
    e3.preventDefault();
    if (!empty && !busy) makePlan();
  }}>
      <${Open} onText=${(source) => change({ source })} onError=${(err) => setError({ title: "The file could not be read.", message: err.message })} />
      <${Field} label="Job file" type="textarea" value=${draft.source} onInput=${(source) => change({ source })} rows="18" hint="HCL, or JSON of the API. Nothing is registered before you have seen the plan." />
      ${formatOf(draft.source) === "hcl2" && html`<${Field} label="Variables" type="textarea" value=${draft.variables} onInput=${(variables) => change({ variables })} rows="3" hint=${VARIABLES} />`}
      <${Namespace} value=${draft.namespace} onChange=${(namespace) => change({ namespace })} />
      ${error && html`<${Notice} tone="bad" title=${error.title}><bdi class="lines">${error.message}</bdi><//>`}
      <div class="actions">
        <button type="submit" class=${plan ? "button" : "button primary"} disabled=${empty || busy !== ""}>${busy === "plan" ? "Planning …" : plan ? "Plan again" : "Plan"}</button>
        ${plan && html`<button type="button" class="button primary" disabled=${busy !== ""} onClick=${run2}>${busy === "run" ? "Running …" : "Run"}</button>`}
      </div>
    </form>
    ${plan && html`<${Plan} plan=${plan} />`}
  <//>`;
}
var TITLES = { plan: "The job could not be planned.", run: "The job was not run.", load: "The file of the job could not be read." };
function Open({ onText, onError }) {
  const id = P2();
  async function read3(event) {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    try {
      onText(await readFile(file));
    } catch (err) {
      onError(err);
    }
  }
  return html`<div class="field"><label for=${id}>Open a file</label><input id=${id} type="file" accept=".hcl,.nomad,.json,text/plain,application/json" onChange=${read3} /></div>`;
}
function Namespace({ value, onChange }) {
  const id = P2();
  const { data } = useQuery(at`/v1/namespaces`);
  const names2 = [.../* @__PURE__ */ new Set([...(data ?? []).map((n3) => n3.Name), ...value ? [value] : []])].sort();
  if (names2.length < 2 && (names2[0] ?? "default") === "default") return null;
  return html`<div class="field"><label for=${id}>Namespace</label>
    <select id=${id} value=${value} onChange=${(e3) => onChange(e3.target.value)}>
      <option value="">That of the file</option>
      ${names2.map((name2) => html`<option value=${name2}>${name2}</option>`)}
    </select></div>`;
}

// app/pages/servers/merge.js
function mergeServers(members = [], peers = [], health2 = []) {
  const rows = /* @__PURE__ */ new Map();
  const row = (key) => rows.get(key) ?? rows.set(key, { key, peer: false }).get(key);
  for (const m3 of members ?? []) {
    const port = m3.Tags?.port ?? m3.Port;
    Object.assign(row(m3.Tags?.id || m3.Name), { id: m3.Tags?.id, name: m3.Name, status: m3.Status, region: m3.Tags?.region, version: versionOf(m3.Tags ?? {}), address: `${m3.Addr.includes(":") ? `[${m3.Addr}]` : m3.Addr}:${port}` });
  }
  for (const p3 of peers ?? []) {
    const r3 = row(p3.ID);
    Object.assign(r3, { id: p3.ID, name: r3.name ?? (p3.Node || p3.ID), address: p3.Address, peer: true, voter: p3.Voter, leader: p3.Leader });
  }
  for (const h3 of health2 ?? []) {
    const r3 = row(h3.ID);
    Object.assign(r3, {
      id: h3.ID,
      name: r3.name ?? h3.Name,
      address: r3.address ?? h3.Address,
      version: r3.version ?? h3.Version,
      healthy: h3.Healthy,
      stableSince: h3.StableSince,
      lastContact: h3.LastContact,
      lastTerm: h3.LastTerm,
      lastIndex: h3.LastIndex,
      leader: r3.leader ?? h3.Leader
    });
  }
  return [...rows.values()].sort((a3, b2) => a3.name < b2.name ? -1 : 1);
}
var versionOf = (tags) => [tags.build, tags.project].filter(Boolean).join(" ");
function healthOf2({ data, error }) {
  if (error?.status !== 429) return { health: data, error };
  try {
    return { health: JSON.parse(error.message), error: null };
  } catch {
    return { health: data, error };
  }
}

// app/pages/servers.js
var PERIOD2 = 5e3;
function usePolled(path) {
  const query = useQuery(path);
  A2(() => {
    const timer2 = setInterval(() => document.hidden || query.refresh(), PERIOD2);
    return () => clearInterval(timer2);
  }, [query.refresh]);
  return query;
}
function Servers({ params }) {
  const members = usePolled(at`/v1/agent/members`);
  const raft = usePolled(at`/v1/operator/raft/configuration`);
  const { health: health2, error: healthError } = healthOf2(usePolled(at`/v1/operator/autopilot/health`));
  const config = useQuery(at`/v1/operator/autopilot/configuration`);
  const all2 = mergeServers(members.data?.Members, raft.data?.Servers, health2?.Servers);
  const servers = params.name ? all2.filter((s3) => s3.name === params.name) : all2;
  const unread = raft.error ?? healthError;
  return html`<${Page} title=${params.name ?? "Servers"} crumbs=${params.name ? [{ href: "/ui/servers", label: "Servers" }] : []} status=${health2 && html`<${Status} of=${health2.Healthy ? "healthy" : "unhealthy"} />`}>
    <${Failure} error=${members.error} what="the gossip members" />
    <${Failure} error=${unread} what="the Raft peers and their health" />
    ${!members.data && !members.error && html`<${Loading} />`}
    ${params.name && members.data && servers.length === 0 && html`<${Notice} tone="warn">No server has the name <${Name} of=${params.name} />. <a href="/ui/servers">All servers</a><//>`}
    ${(health2?.Warnings ?? []).map((text) => html`<${Notice} tone="warn"><bdi>${text}</bdi><//>`)}
    ${health2 && html`<${Summary} health=${health2} servers=${all2} peers=${raft.data?.Servers ?? []} />`}
    ${servers.length > 0 && html`<${Section} title=${params.name ? "This server" : "Servers of this region"}><${Table} caption="Servers" columns=${COLUMNS15} rows=${servers.filter((s3) => s3.peer || s3.region === members.data?.ServerRegion)} rowKey=${(s3) => s3.key} /><//>`}
    <${Others} servers=${servers.filter((s3) => !s3.peer && s3.region !== members.data?.ServerRegion)} />
    ${config.data && html`<${Autopilot} config=${config.data} />`}
  <//>`;
}
function Summary({ health: health2, servers, peers }) {
  const leader = peers.find((p3) => p3.Leader) ?? servers.find((s3) => s3.leader);
  const voters = peers.filter((p3) => p3.Voter);
  return html`<${Facts} rows=${[
    ["Leader", leader ? html`<${Name} of=${leader.Node ?? leader.name} />` : "none"],
    ["Servers that may fail", `${count(health2.FailureTolerance)} without a loss of the quorum`],
    ["Voters", voters.length > 0 ? plural(voters.length, "voter") : null],
    ["Features that this build lacks", (health2.Unserved ?? []).join(", ")]
  ]} />`;
}
var COLUMNS15 = [
  { label: "Server", head: true, cell: (s3) => html`<${Name} of=${s3.name} />${s3.id && html`<div class="muted small"><${Code} of=${s3.id.slice(0, 8)} /></div>`}` },
  { label: "Gossip", kind: "narrow", cell: (s3) => s3.status ? html`<${Status} of=${s3.status} />` : html`<${Status} of="absent" tone="bad" icon="warn" label="Not a member" />` },
  { label: "Raft", kind: "narrow", cell: (s3) => s3.leader ? html`<${Status} of="leader" tone="ok" icon="ok" label="Leader" />` : s3.peer ? s3.voter ? "voter" : "non-voter" : "not a peer" },
  { label: "Health", kind: "narrow", cell: (s3) => s3.healthy === void 0 ? "–" : html`<${Status} of=${s3.healthy ? "healthy" : "unhealthy"} />` },
  { label: "Stable since", kind: "narrow", cell: (s3) => html`<${Ago} at=${s3.stableSince} />` },
  { label: "Last contact", kind: "number", cell: (s3) => s3.leader ? "–" : s3.lastContact ?? "–" },
  { label: "Term", kind: "number", cell: (s3) => s3.lastTerm === void 0 ? "–" : count(s3.lastTerm) },
  { label: "Index", kind: "number", cell: (s3) => s3.lastIndex === void 0 ? "–" : count(s3.lastIndex) },
  { label: "Version", cell: (s3) => html`<${Name} of=${s3.version || "–"} />` },
  { label: "Address", cell: (s3) => html`<${Code} of=${s3.address} />` }
];
var OTHERS = [COLUMNS15[0], COLUMNS15[1], { label: "Region", cell: (s3) => html`<${Name} of=${s3.region} />` }, COLUMNS15[8], COLUMNS15[9]];
function Others({ servers }) {
  if (servers.length === 0) return null;
  return html`<${Section} title="Servers of other regions"><${Table} caption="Servers of other regions" columns=${OTHERS} rows=${servers} rowKey=${(s3) => s3.key} /><//>`;
}
function Autopilot({ config: c3 }) {
  return html`<${Section} title="Autopilot"><${Facts} rows=${[
    ["Removes dead servers", c3.CleanupDeadServers ? "yes" : "no"],
    ["Smallest quorum", c3.MinQuorum > 0 ? String(c3.MinQuorum) : "not set"],
    ["Last contact at most", c3.LastContactThreshold],
    ["Entries behind at most", count(c3.MaxTrailingLogs)],
    ["Stable before it votes", c3.ServerStabilizationTime]
  ]} /><//>`;
}

// app/pages/settings.js
var CALLBACK = "/ui/settings/tokens";
var PENDING2 = "nomad.oidc";
function Settings() {
  const { state } = useStore(session);
  return html`<${Page} title="Sign in and settings">
    <${OIDCReturn} />
    ${state === "off" && html`<${Notice} title="This cluster has no access control.">Everyone who reaches the agent may do everything. No token is needed.<//>`}
    ${state === "signed-in" && html`<${Current} />`}
    ${state !== "signed-in" && state !== "off" && html`<${SignIn2} /><${Methods2} />`}
    <${Theme} />
  <//>`;
}
function SignIn2() {
  const [token, setToken] = d2("");
  const [busy, setBusy] = d2(false);
  async function submit(event) {
    event.preventDefault();
    setBusy(true);
    await signIn(token);
    setBusy(false);
  }
  return html`<${Section} title="Sign in with a token">
    <form class="sign-in" onSubmit=${submit}>
      <${Field} label="Secret ID of an ACL token" type="password" value=${token} onInput=${setToken} maxlength="8192" />
      <button type="submit" class="button primary" disabled=${busy || !token.trim()}>Sign in</button>
    </form>
    <p class="hint">The token is kept in this window only (sessionStorage). It survives a reload and ends with the window. It is not a cookie, so no other site can use it,
      and it is never part of a URL. <code>nomad ui -authenticate</code> signs in with the token of your shell.</p>
  <//>`;
}
function Methods2() {
  const { data } = useQuery(at`/v1/acl/auth-methods`);
  const [error, setError] = d2(null);
  const methods = (data ?? []).filter((m3) => m3.Type === "OIDC");
  if (methods.length === 0) return null;
  return html`<${Section} title="Sign in with an identity provider">
    <div class="actions">${methods.map((m3) => html`<button type="button" class="button" onClick=${() => beginOIDC(m3.Name).catch(setError)}><${Name} of=${m3.Name} /></button>`)}</div>
    ${error && html`<${Notice} tone="bad" title="The sign-in could not begin.">${error.message}<//>`}
  <//>`;
}
async function beginOIDC(method) {
  const nonce = [...crypto.getRandomValues(new Uint8Array(32))].map((b2) => b2.toString(16).padStart(2, "0")).join("");
  const redirect = location.origin + CALLBACK;
  const { data } = await api.put("/v1/acl/oidc/auth-url", { AuthMethodName: method, RedirectURI: redirect, ClientNonce: nonce });
  sessionStorage.setItem(PENDING2, JSON.stringify({ method, nonce, redirect }));
  const address = webAddress(data.AuthURL);
  if (!address) throw new Error("The address of the identity provider is not a web address. Its auth method may be configured wrongly.");
  location.assign(address);
}
function OIDCReturn() {
  const [error, setError] = d2(null);
  A2(() => {
    const { query } = currentLocation();
    const [code, state, refused] = ["code", "state", "error"].map((key) => query.get(key));
    if (!code && !refused) return;
    const pending = JSON.parse(sessionStorage.getItem(PENDING2) ?? "null");
    sessionStorage.removeItem(PENDING2);
    replaceQuery({ code: null, state: null, error: null, error_description: null, scope: null, session_state: null });
    if (refused) setError(new Error(query.get("error_description") || refused));
    else if (!pending) setError(new Error("The sign-in was not begun in this window."));
    else finishOIDC(pending, code, state).catch(setError);
  }, []);
  return error && html`<${Notice} tone="bad" title="The sign-in failed.">${error.message}<//>`;
}
async function finishOIDC({ method, nonce, redirect }, code, state) {
  const { data } = await api.put("/v1/acl/oidc/complete-auth", { AuthMethodName: method, ClientNonce: nonce, RedirectURI: redirect, State: state, Code: code });
  await signIn(data.SecretID);
}
function Current() {
  const { self } = useStore(session);
  const list = (names2) => names2?.length ? names2.map((n3) => html`<span class="tag"><${Name} of=${n3} /></span> `) : null;
  return html`<${Section} title="Your token" actions=${html`<button type="button" class="button" onClick=${signOut}>Sign out</button>`}>
    ${self ? html`<${Facts} rows=${[
    ["Name", self.Name && html`<${Name} of=${self.Name} />`],
    ["Type", self.Type],
    ["Accessor ID", html`<${Code} of=${self.AccessorID} />`],
    ["Policies", list(self.Policies)],
    ["Roles", list((self.Roles ?? []).map((r3) => r3.Name))],
    ["Expires", self.ExpirationTime ? html`<${Ago} at=${self.ExpirationTime} />` : "never"]
  ]} />` : html`<p>${currentToken() ? "Signed in." : ""}</p>`}
  <//>`;
}
var THEMES = [["", "As the system"], ["light", "Light"], ["dark", "Dark"]];
function Theme() {
  useStore(place);
  const [theme, setTheme] = d2(document.documentElement.dataset.theme ?? "");
  function choose(value) {
    setTheme(value);
    if (value) {
      localStorage.setItem("nomad.theme", value);
      document.documentElement.dataset.theme = value;
    } else {
      localStorage.removeItem("nomad.theme");
      delete document.documentElement.dataset.theme;
    }
  }
  return html`<${Section} title="Appearance">
    <fieldset class="choices"><legend class="hidden">Theme</legend>
      ${THEMES.map(([value, label]) => html`<label><input type="radio" name="theme" value=${value} checked=${theme === value} onChange=${() => choose(value)} />${label}</label>`)}
    </fieldset>
  <//>`;
}

// app/pages/variable/conflict.js
function compare2(base, mine, theirs) {
  const names2 = [.../* @__PURE__ */ new Set([...Object.keys(mine), ...Object.keys(theirs)])].sort();
  return names2.filter((name2) => mine[name2] !== theirs[name2]).map((name2) => ({
    name: name2,
    mine: mine[name2],
    theirs: theirs[name2],
    choice: mine[name2] === base[name2] ? "theirs" : theirs[name2] === base[name2] ? "mine" : ""
  }));
}
function merge(mine, differences, choices) {
  const out = { ...mine };
  for (const { name: name2, theirs } of differences) {
    if (choices[name2] !== "theirs") continue;
    if (theirs === void 0) delete out[name2];
    else out[name2] = theirs;
  }
  return out;
}
function Conflict({ base, mine, theirs, at: at2, busy, onSave, onBack }) {
  const differences = compare2(base, mine, theirs ?? {});
  const [choices, setChoices] = d2(Object.fromEntries(differences.map((d3) => [d3.name, d3.choice])));
  const open = differences.filter((d3) => !choices[d3.name]).length;
  if (!theirs) {
    return html`<${Notice} tone="warn" title="Someone else changed this variable." actions=${html`<button type="button" class="button" onClick=${onBack}>Back to my changes</button>`}>
      Your token may not read it, so the changes cannot be compared. Nothing was written.<//>`;
  }
  const cell = (value) => value === void 0 ? html`<em>no such item</em>` : html`<pre class="value"><bdi>${value}</bdi></pre>`;
  const side = (d3, which, label) => html`<label class="side"><input type="radio" name=${`choice ${d3.name}`} checked=${choices[d3.name] === which}
    onChange=${() => setChoices({ ...choices, [d3.name]: which })} /><span>${label}</span></label>${cell(d3[which])}`;
  return html`<section class="conflict" aria-label="Conflict">
    <${Notice} tone="warn" title="Someone else changed this variable.">Nothing was written. ${at2 ? html`The other change was made <${Ago} at=${at2} />. ` : ""}
      Choose a value for each item that differs. Your values stay here until you save or leave the page.<//>
    ${differences.map((d3) => html`<fieldset class="panel" key=${d3.name}><legend>Item <${Code} of=${d3.name} /></legend>
      <div class="sides"><div>${side(d3, "mine", "Your value")}</div><div>${side(d3, "theirs", "The stored value")}</div></div></fieldset>`)}
    ${differences.length === 0 && html`<p>Both have the same items now.</p>`}
    <div class="actions">
      <button type="button" class="button" onClick=${onBack}>Back to my changes</button>
      <button type="button" class="button primary" disabled=${busy || open > 0} onClick=${() => onSave(merge(mine, differences, choices))}>Save the chosen values</button>
      ${open > 0 && html`<span class="muted">${open} without a choice</span>`}
    </div>
  </section>`;
}

// app/pages/variable/items.js
var HIDDEN = "••••••••";
function Items({ items }) {
  const [shown, setShown] = d2({});
  const rows = Object.entries(items).sort(([a3], [b2]) => a3 < b2 ? -1 : 1);
  const every = rows.length > 0 && rows.every(([name2]) => shown[name2]);
  const toggle = () => setShown(every ? {} : Object.fromEntries(rows.map(([name2]) => [name2, true])));
  const columns3 = [
    { label: "Item", head: true, cell: ([name2]) => html`<${Code} of=${name2} />` },
    { label: "Value", kind: "wide", cell: ([name2, value]) => shown[name2] ? html`<pre class="value"><bdi>${value}</bdi></pre>` : html`<span class="muted" aria-label="hidden">${HIDDEN}</span>` },
    { label: "Actions", kind: "narrow", cell: ([name2]) => html`<button type="button" class="button" aria-label=${`${shown[name2] ? "Hide" : "Show"} the value of ${name2}`}
      onClick=${() => setShown({ ...shown, [name2]: !shown[name2] })}>${shown[name2] ? "Hide" : "Show"}</button>` }
  ];
  return html`<p><button type="button" class="button" disabled=${rows.length === 0} onClick=${toggle}>${every ? "Hide all values" : "Show all values"}</button></p>
    <${Table} caption="items" columns=${columns3} rows=${rows} rowKey=${([name2]) => name2} />`;
}
function ItemsForm({ rows, onChange }) {
  const set = (id, changes) => onChange(rows.map((r3) => r3.id === id ? { ...r3, ...changes } : r3));
  const twice = (r3) => r3.name !== "" && rows.some((other) => other.id !== r3.id && other.name === r3.name);
  return html`${rows.map((r3, i3) => html`<fieldset class="item" key=${r3.id}>
      <legend>Item ${i3 + 1}</legend>
      <${Field} label=${`Name of item ${i3 + 1}`} value=${r3.name} onInput=${(name2) => set(r3.id, { name: name2 })} error=${twice(r3) ? "Another item has this name." : null} />
      ${r3.open ? html`<${Field} label=${`Value of item ${i3 + 1}`} type="textarea" rows="2" value=${r3.value} onInput=${(value) => set(r3.id, { value })} />` : html`<p class="field"><span class="muted">${HIDDEN}</span> <button type="button" class="button" onClick=${() => set(r3.id, { open: true })}>Show and edit item ${i3 + 1}</button></p>`}
      <button type="button" class="button danger-quiet" onClick=${() => onChange(rows.filter((other) => other.id !== r3.id))}>Remove item ${i3 + 1}</button>
    </fieldset>`)}
    <p><button type="button" class="button" onClick=${() => onChange([...rows, newRow()])}>Add an item</button></p>`;
}
var last3 = 0;
var newRow = (name2 = "", value = "", open = true) => ({ id: ++last3, name: name2, value, open });
var rowsOf = (items) => Object.entries(items).sort(([a3], [b2]) => a3 < b2 ? -1 : 1).map(([name2, value]) => newRow(name2, value, false));
function itemsOf(rows) {
  if (rows.length === 0) return { fault: "A variable has at least one item." };
  if (rows.some((r3) => r3.name === "")) return { fault: "Each item has a name." };
  if (new Set(rows.map((r3) => r3.name)).size < rows.length) return { fault: "Two items have the same name." };
  return { items: Object.fromEntries(rows.map((r3) => [r3.name, r3.value])) };
}

// app/pages/variable/form.js
async function write(path, namespace, items, index) {
  try {
    const { data } = await api.put(at`/v1/var/${path}`, { Path: path, Namespace: namespace, Items: items }, { namespace, cas: index });
    return { written: data };
  } catch (error) {
    if (error.status === 409) return { conflict: JSON.parse(error.message) };
    throw error;
  }
}
var PATH = /^[a-zA-Z0-9\-_~/]{1,128}$/;
function VariableForm({ variable, start, onDone, onCancel }) {
  const [seen, setSeen] = d2({ items: variable?.Items ?? {}, index: variable?.ModifyIndex ?? 0 });
  const [path, setPath] = d2(variable?.Path ?? start.path);
  const [namespace, setNamespace] = d2(variable?.Namespace ?? start.namespace);
  const [rows, setRows] = d2(() => variable ? rowsOf(variable.Items ?? {}) : [newRow()]);
  const [conflict, setConflict] = d2(null);
  const [error, setError] = d2(null);
  const [busy, setBusy] = d2(false);
  const { items, fault } = itemsOf(rows);
  const named = PATH.test(path) && namespace !== "";
  async function save2(all2, index) {
    setBusy(true);
    setError(null);
    try {
      const { written, conflict: found } = await write(path, namespace, all2, index);
      if (written) return onDone(written);
      setRows(rowsOf(all2));
      setConflict({ mine: all2, theirs: found });
    } catch (err) {
      setError(err);
    } finally {
      setBusy(false);
    }
  }
  if (conflict) {
    const stored = conflict.theirs;
    const readable = "Items" in stored || stored.ModifyIndex === 0;
    return html`${error && html`<${Notice} tone="bad" title="The variable was not written.">${error.message}<//>`}
      <${Conflict} key=${stored.ModifyIndex} base=${seen.items} mine=${conflict.mine} theirs=${readable ? stored.Items ?? {} : null} at=${stored.ModifyTime} busy=${busy}
        onBack=${() => setConflict(null)} onSave=${(all2) => {
      setSeen({ items: stored.Items ?? {}, index: stored.ModifyIndex ?? 0 });
      save2(all2, stored.ModifyIndex ?? 0);
    }} />`;
  }
  return html`<form class="variable-form" onSubmit=${(e3) => {
    e3.preventDefault();
    if (!fault && named && !busy) save2(items, seen.index);
  }}>
    ${!variable && html`
      <${Field} label="Path" value=${path} onInput=${setPath} maxlength="128" error=${path && !PATH.test(path) ? "Use letters, digits and - _ ~ /" : null}
        hint="A task reads nomad/jobs, nomad/jobs/JOB, nomad/jobs/JOB/GROUP and nomad/jobs/JOB/GROUP/TASK of its own job without a policy." />
      <${Field} label="Namespace" value=${namespace} onInput=${setNamespace} maxlength="128" />`}
    <h2>Items</h2>
    <${ItemsForm} rows=${rows} onChange=${setRows} />
    ${error && html`<${Notice} tone="bad" title="The variable was not written.">${error.message}<//>`}
    <div class="actions">
      <button type="button" class="button" onClick=${onCancel}>Cancel</button>
      <button type="submit" class="button primary" disabled=${busy || Boolean(fault) || !named}>${busy ? "Working …" : variable ? "Save" : "Create"}</button>
      ${fault && html`<span class="muted">${fault}</span>`}
    </div>
  </form>`;
}

// app/pages/variable/readers.js
var OWN = /^nomad\/jobs(?:\/(.+))?$/;
function ownersOf(path) {
  const found = OWN.exec(path);
  if (!found) return null;
  if (!found[1]) return "Every task of this namespace may read this path with its own identity.";
  const parts = found[1].split("/");
  const readings = [`job ${found[1]}`];
  if (parts.length > 1) readings.push(`group ${parts.at(-1)} of job ${parts.slice(0, -1).join("/")}`);
  if (parts.length > 2) readings.push(`task ${parts.at(-1)} in group ${parts.at(-2)} of job ${parts.slice(0, -2).join("/")}`);
  return `These tasks of this namespace may read it with their own identity, unless a policy denies it: those of ${readings.join(", or of ")}.`;
}
function Readers({ path, namespace, after }) {
  const { state } = useStore(session);
  const own = ownersOf(path);
  return html`<${Section} title="Who may read it">
    <p>${own ? html`<bdi>${own}</bdi>` : "No task may read this path by its own identity alone: a policy must grant it."}</p>
    ${state === "off" ? html`<${Notice} tone="warn" title="This cluster has no access control.">Everyone who reaches the agent may read it.<//>` : html`<${Answers} path=${path} namespace=${namespace} after=${after} />`}
  <//>`;
}
function Answers({ path, namespace, after }) {
  const { data, error, next } = useQuery(at`/v1/acl/explain`, {
    params: { kind: "variable", right: "read", name: path, namespace, everybody: "true", per_page: 50, next_token: after },
    topics: ["ACLPolicy", "ACLRole", "ACLToken", "Job"],
    gap: 5e3
  });
  if (error?.status === 403) return html`<${Notice} title="Policies, roles and tokens">Only a management token may list who else can read it.<//>`;
  const columns3 = [
    { label: "Who", head: true, cell: (a3) => html`<${Who} subject=${a3.Subject} />` },
    { label: "Why", cell: (a3) => html`<${Why} decisions=${a3.Decisions ?? []} />` }
  ];
  return html`<${Failure} error=${error} what="who may read this variable" />
    ${!data && !error && html`<${Loading} />`}
    ${data && ((data.Answers ?? []).length > 0 ? html`<${Table} caption="Who may read it" columns=${columns3} rows=${data.Answers} rowKey=${(a3) => JSON.stringify(a3.Subject)} />` : html`<p>Nobody else.</p>`)}
    ${(next || after) && html`<nav class="pager" aria-label="Pages of readers"><span></span>
      ${after && html`<button type="button" class="button" onClick=${() => pushQuery({ readers: null })}>First page</button>`}
      ${next && html`<button type="button" class="button" onClick=${() => pushQuery({ readers: next })}>Next</button>`}</nav>`}`;
}
function Who({ subject: s3 }) {
  const w3 = s3.Workload;
  if (w3) {
    const parts = [
      w3.Task && html`task <${Name} of=${w3.Task} />`,
      w3.Group && html`group <${Name} of=${w3.Group} />`,
      w3.JobID ? html`job <a href=${jobHref(w3.JobID, w3.Namespace)}><${Name} of=${w3.JobID} /></a>` : html`all jobs in namespace <${Name} of=${w3.Namespace} />`
    ].filter(Boolean);
    return html`Tasks: ${parts.map((part, i3) => html`${i3 > 0 ? ", " : ""}${part}`)}`;
  }
  return html`${s3.Kind === "role" ? "Role" : "Token"} <${Name} of=${s3.Name || shortID(s3.ID)} />${s3.Name && s3.ID && html` <span class="muted small"><${Code} of=${shortID(s3.ID)} /></span>`}`;
}
function Why({ decisions }) {
  return decisions.map((d3) => html`<div>${d3.Reason}${(d3.Rules ?? []).map((r3) => html`<div class="small muted">policy <a href=${policyHref(r3.Policy)}><${Name} of=${r3.Policy} /></a>, line ${r3.Line}: <bdi>${r3.Block} ${r3.Text}</bdi></div>`)}</div>`);
}

// app/pages/variable.js
function parseVariable(text) {
  const [, path, namespace, edit] = /^([^@]*)(?:@([^/]*))?(\/edit)?$/.exec(text) ?? ["", text];
  return { path: path ?? text, namespace: namespace || "default", edit: Boolean(edit) };
}
function Variable({ params, query }) {
  if (params.path === void 0) return html`<${New2} path=${query.get("path") ?? ""} namespace=${query.get("namespace") || "default"} />`;
  return html`<${Existing2} ...${parseVariable(params.path)} after=${query.get("readers")} />`;
}
function New2({ path, namespace }) {
  return html`<${Page} title="Create a variable" crumbs=${[{ href: "/ui/variables", label: "Variables" }]}>
    <${VariableForm} variable=${null} start=${{ path, namespace }} onCancel=${() => navigate("/ui/variables")} onDone=${(v3) => navigate(variableHref(v3.Path, v3.Namespace))} />
  <//>`;
}
function Existing2({ path, namespace, edit, after }) {
  const { data: v3, error, refresh } = useQuery(at`/v1/var/${path}`, { params: { namespace }, topics: [`Variable:${path}`] });
  const [editing, setEditing] = d2(edit);
  const folders = path.split("/").slice(0, -1);
  const crumbs = [{ href: "/ui/variables", label: "Variables" }, ...folders.map((label, i3) => ({ href: folderHref(folders.slice(0, i3 + 1).join("/"), namespace), label }))];
  async function done2() {
    setEditing(false);
    await refresh();
  }
  const gone = error?.status === 404;
  return html`<${Page} title=${path} crumbs=${crumbs} status=${html`<span class="tag">namespace <${Name} of=${namespace} /></span>`}
    actions=${v3 && !gone && !editing && html`<button type="button" class="button primary" onClick=${() => setEditing(true)}>Edit</button>
      <${DialogButton} label="Delete" danger dialog=${(close) => html`<${Delete3} variable=${v3} onClose=${close} />`} />`}>
    ${gone && v3 ? html`<${Notice} tone="warn" title="This variable was deleted.">${editing ? "Your changes are still in the form." : "What you see was its last state."}<//>` : html`<${Failure} error=${error} what="this variable" />`}
    ${!v3 && !error && html`<${Loading} />`}
    ${v3 && (editing ? html`<${VariableForm} variable=${v3} onCancel=${() => setEditing(false)} onDone=${done2} />` : html`<${Facts} rows=${[["Created", html`<${Ago} at=${v3.CreateTime} />`], ["Changed", html`<${Ago} at=${v3.ModifyTime} />`], ["Modify index", String(v3.ModifyIndex)], ["Lock", v3.Lock && `locked, TTL ${v3.Lock.TTL}`]]} />
        <${Section} title="Items"><${Items} items=${v3.Items ?? {}} /><//>`)}
    ${!editing && html`<${Readers} path=${path} namespace=${namespace} after=${after} />`}
  <//>`;
}
function Delete3({ variable, onClose }) {
  const [seen] = d2(variable);
  async function confirm() {
    try {
      await api.del(at`/v1/var/${seen.Path}`, { namespace: seen.Namespace, cas: seen.ModifyIndex });
    } catch (error) {
      throw error.status === 409 ? new Error("Someone else changed this variable since you opened this dialog. Nothing was deleted.") : error;
    }
    navigate(folderHref(seen.Path.split("/").slice(0, -1).join("/"), seen.Namespace));
  }
  return html`<${Dialog} title="Delete the variable?" action="Delete" danger onClose=${onClose} onConfirm=${confirm}>
    <p>All items of <strong><${Name} of=${seen.Path} /></strong> are deleted. They cannot be restored.</p>
  <//>`;
}

// app/pages/variables.js
var PER_PAGE2 = 500;
function Variables({ params, query }) {
  const folder = (params.path ?? "").replace(/\/+$/, "");
  const searching = query.has("search");
  const parents = folder.split("/").slice(0, -1).map((name2, i3, all2) => ({ href: folderHref(all2.slice(0, i3 + 1).join("/"), query.get("namespace")), label: name2 }));
  const tabs = [{ href: folderHref("", query.get("namespace")), label: "Folders" }, { href: href("/ui/variables", { search: "1" }), label: "Search" }];
  return html`<${Page} title=${folder || "Variables"} crumbs=${folder ? [{ href: "/ui/variables", label: "Variables" }, ...parents] : []}
    actions=${html`<a class="button primary" href=${href("/ui/variables/new", { path: folder ? `${folder}/` : "", namespace: query.get("namespace") })}>Create a variable</a>`}
    tabs=${!folder && html`<${Tabs} label="Ways to the variables" tabs=${tabs} current=${tabs[searching ? 1 : 0].href} />`}>
    ${searching ? html`<${Search2} />` : html`<${Folder} folder=${folder} query=${query} />`}
  <//>`;
}
var variableLink = (v3) => html`<a href=${variableHref(v3.Path, v3.Namespace)}><${Name} of=${v3.Path} /></a>`;
var CHANGED = { label: "Changed", kind: "narrow", cell: (v3) => v3.ModifyTime && html`<${Ago} at=${v3.ModifyTime} />` };
var NAMESPACE = { label: "Namespace", cell: (v3) => html`<${Name} of=${v3.Namespace} />` };
var LOCKED = { label: "Lock", kind: "narrow", cell: (v3) => v3.Lock ? "locked" : "" };
function Search2() {
  const columns3 = [{ label: "Path", head: true, cell: variableLink }, NAMESPACE, LOCKED, CHANGED];
  return html`<${List} path=${at`/v1/vars`} what="variables" columns=${columns3} rowKey=${(v3) => `${v3.Namespace} ${v3.Path}`} search=${["Path"]} namespaced topics=${["Variable"]} />`;
}
function Folder({ folder, query }) {
  const namespace = query.get("namespace") || "*";
  const prefix = folder ? `${folder}/` : "";
  const result = useQuery(at`/v1/vars`, { params: { prefix, namespace, per_page: PER_PAGE2, next_token: query.get("after") }, topics: ["Variable"] });
  const entries = entriesOf(result.data ?? [], prefix);
  const next = result.next && afterLast(entries.at(-1), prefix, result.next);
  const columns3 = [
    { label: "Name", head: true, cell: (e3) => e3.folder ? html`<a href=${folderHref(prefix + e3.folder, e3.Namespace)}><${Name} of=${`${e3.folder}/`} /></a>` : html`<a href=${variableHref(e3.Path, e3.Namespace)}><${Name} of=${e3.Path.slice(prefix.length)} /></a>` },
    { label: "Kind", kind: "narrow", cell: (e3) => e3.folder ? "folder" : "variable" },
    NAMESPACE,
    LOCKED,
    CHANGED
  ];
  return html`
    <div class="list-tools"><${Namespaces} value=${namespace} onChange=${(v3) => pushQuery({ namespace: v3 === "*" ? null : v3, after: null })} /></div>
    <${Failure} error=${result.error} what="variables" />
    ${result.data === void 0 && !result.error && html`<${Loading} />`}
    ${entries.length > 0 && html`<${Table} caption="variables" columns=${columns3} rows=${entries} rowKey=${(e3) => `${e3.Namespace} ${e3.folder ?? ""} ${e3.Path ?? ""}`} busy=${result.loading} />`}
    ${result.data?.length === 0 && html`<${Empty}><p>There are no variables here that you may list.</p>
      ${!folder && html`<p><code>nomad var put nomad/jobs/example key=value</code> stores the first one.</p>`}<//>`}
    ${(next || query.get("after")) && html`<nav class="pager" aria-label="Pages of variables"><span></span>
      ${query.get("after") && html`<button type="button" class="button" onClick=${() => pushQuery({ after: null })}>First page</button>`}
      ${next && html`<button type="button" class="button" onClick=${() => pushQuery({ after: next })}>Next</button>`}</nav>`}`;
}
function entriesOf(list, prefix) {
  const entries = [];
  const seen = /* @__PURE__ */ new Set();
  for (const v3 of list) {
    const rest = v3.Path.slice(prefix.length);
    const slash = rest.indexOf("/");
    if (slash < 0) {
      entries.push(v3);
      continue;
    }
    const folder = rest.slice(0, slash);
    const key = `${v3.Namespace} ${folder}`;
    if (!seen.has(key)) entries.push({ Namespace: v3.Namespace, folder });
    seen.add(key);
  }
  return entries;
}
function afterLast(last4, prefix, next) {
  const inside = last4?.folder !== void 0 && next.startsWith(`${last4.Namespace}.${prefix}${last4.folder}/`);
  return inside ? `${last4.Namespace}.${prefix}${last4.folder}0` : next;
}

// app/routes.js
var groups = [
  {
    group: "Cluster",
    rows: [
      { path: "/ui", nav: "Overview", page: Overview4 },
      { path: "/ui/clients", nav: "Nodes", page: Nodes2 },
      { path: "/ui/clients/:id", page: Node },
      { path: "/ui/clients/:id/:tab", page: Node },
      { path: "/ui/node-pools", nav: "Node pools", page: Pools },
      { path: "/ui/servers", nav: "Servers", page: Servers },
      { path: "/ui/servers/:name", page: Servers },
      { path: "/ui/topology", page: Overview4 },
      { path: "/ui/optimize", page: Absent },
      { path: "/ui/optimize/*rest", page: Absent },
      { path: "/ui/csi", page: Absent },
      { path: "/ui/csi/*rest", page: Absent },
      { path: "/ui/storage", page: Absent },
      { path: "/ui/storage/*rest", page: Absent }
    ]
  },
  {
    group: "Workloads",
    rows: [
      { path: "/ui/jobs", nav: "Jobs", page: Jobs },
      { path: "/ui/jobs/run", page: Run },
      { path: "/ui/jobs/:job", page: Job },
      { path: "/ui/jobs/:job/:tab", page: Job },
      { path: "/ui/allocations/:id", page: Allocation },
      { path: "/ui/allocations/:id/:tab", page: Allocation },
      { path: "/ui/allocations/:id/:task/logs", page: Allocation },
      { path: "/ui/exec/:job", page: ExecTargets },
      { path: "/ui/exec/:job/:group", page: ExecTargets },
      { path: "/ui/exec/:job/:group/:task", page: ExecTargets },
      { path: "/ui/exec/:job/:group/:task/:alloc", page: Exec },
      { path: "/ui/evaluations", nav: "Evaluations", page: Evaluations },
      { path: "/ui/evaluations/:id", page: Evaluation }
    ]
  },
  {
    group: "Access",
    rows: [
      { path: "/ui/variables", nav: "Variables", page: Variables },
      { path: "/ui/variables/new", page: Variable },
      { path: "/ui/variables/path/*path", page: Variables },
      { path: "/ui/variables/var/*path", page: Variable },
      { path: "/ui/identities", nav: "Identities", page: Identities2 },
      { path: "/ui/identities/:tab", page: Identities2 },
      { path: "/ui/keyring", nav: "Keyring", page: Keyring },
      { path: "/ui/administration", nav: "Access control", page: Administration },
      { path: "/ui/administration/:tab", page: Administration },
      { path: "/ui/administration/policies/:policy", page: Policy }
    ]
  },
  {
    group: "Settings",
    rows: [
      { path: "/ui/settings/tokens", nav: "Sign in and settings", page: Settings }
    ]
  }
];
var routes = groups.flatMap((g3) => g3.rows);

// app/frame.js
function Frame() {
  const { path } = useStore(place);
  const [open, setOpen] = d2(false);
  A2(() => setOpen(false), [path]);
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <button type="button" class="button menu" aria-expanded=${open} aria-controls="nav" onClick=${() => setOpen(!open)}><${Icon} name="menu" />Menu</button>
      <a class="brand" href=${href("/ui/")}>open-nomad</a>
      <${ClusterLabel} />
      <div class="top-state"><${Updates2} /><${Caller} /></div>
    </header>
    <div class="body">
      <nav id="nav" class="nav" data-open=${open} aria-label="Pages">
        ${groups.map((g3) => html`<div class="nav-group"><h2 id=${`nav-${g3.group}`}>${g3.group}</h2>
          <ul aria-labelledby=${`nav-${g3.group}`}>${g3.rows.filter((r3) => r3.nav).map((r3) => html`<li><a href=${href(r3.path === "/ui" ? "/ui/" : r3.path)} aria-current=${isIn(path, r3.path) ? "page" : null}>${r3.nav}</a></li>`)}</ul></div>`)}
        <${OtherUIs} />
      </nav>
      <main id="main" class="main" tabindex="-1"><${Banners} /><${Current2} key=${path} path=${path} /></main>
    </div>`;
}
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}
function isIn(path, route) {
  const at2 = path.replace(/\/+$/, "");
  return at2 === route || route !== "/ui" && at2.startsWith(`${route}/`);
}
var firstPage = true;
function Current2({ path }) {
  const found = match(routes, path);
  const { query } = useStore(place);
  const [broken] = O((err) => console.error(err));
  const box = T2(null);
  A2(() => {
    if (!firstPage) {
      scrollTo(0, 0);
      box.current?.querySelector("h1")?.focus();
    }
    firstPage = false;
  }, []);
  if (!found) return html`<${Page} title="Page not found"><p>The web UI has no page <code class="name">${path}</code>.</p><p><a href="/ui/">Go to the overview</a></p><//>`;
  if (broken) return html`<${Broken} error=${broken} />`;
  return html`<div class="page" ref=${box}><${found.route.page} params=${found.params} query=${query} /></div>`;
}
function Broken({ error }) {
  const again = html`<button type="button" class="button" onClick=${() => location.reload()}>Reload</button>`;
  return html`<${Notice} tone="bad" title="This page has failed." actions=${again}>${String(error.message ?? error)}<//>`;
}
function Banners() {
  const { state, error } = useStore(session);
  const answers = useStore(reachable);
  return html`
    ${!answers && html`<${Notice} tone="bad" title="The agent does not answer.">What you see can be out of date. Trying again …<//>`}
    <${Refused} />
    ${state !== "refused" && error && html`<${Notice} tone="warn">${error}<//>`}`;
}
var UPDATES = {
  idle: ["idle", "off", "Not live"],
  connecting: ["info", "wait", "Connecting"],
  live: ["ok", "run", "Live"],
  polling: ["warn", "wait", "Every 10 s"],
  lost: ["bad", "warn", "No connection"]
};
function Updates2() {
  const state = useStore(live);
  const answers = useStore(reachable);
  A2(() => {
    if (answers) return void 0;
    const timer2 = setInterval(checkToken, 3e3);
    return () => clearInterval(timer2);
  }, [answers]);
  const shown = answers ? state : "lost";
  if (shown === "idle") return null;
  const [tone, icon, label] = UPDATES[shown];
  return html`<${Status} of=${shown} tone=${tone} icon=${icon} label=${label} />`;
}
function Caller() {
  const { state, self } = useStore(session);
  const texts = { unknown: "", off: "No access control", anonymous: "Sign in" };
  if (state === "refused") return html`<${SignInAgain} />`;
  return html`<a class="caller" href=${href("/ui/settings/tokens")}>${state === "signed-in" ? html`<bdi>${self?.Name || self?.AccessorID?.slice(0, 8) || "Signed in"}</bdi>` : texts[state]}</a>`;
}
function ClusterLabel() {
  const { label, labelBackground, labelColor } = document.documentElement.dataset;
  if (!label) return null;
  return html`<span class="cluster-label" style=${{ background: labelBackground ?? "", color: labelColor ?? "" }}><bdi>${label}</bdi></span>`;
}
function OtherUIs() {
  const { consul, vault } = document.documentElement.dataset;
  if (!consul && !vault) return null;
  return html`<div class="nav-group"><h2 id="nav-others">Other UIs</h2><ul aria-labelledby="nav-others">
    ${consul && html`<li><a href=${consul} target="_blank" rel="noreferrer">Consul<${Icon} name="link" /></a></li>`}
    ${vault && html`<li><a href=${vault} target="_blank" rel="noreferrer">Vault<${Icon} name="link" /></a></li>`}
  </ul></div>`;
}

// app/onetime.js
function OneTimeQuestion({ onKeep, onUse }) {
  const { state, self } = useStore(session);
  const [busy, setBusy] = d2(false);
  const use = () => {
    setBusy(true);
    onUse();
  };
  return html`<main id="main" class="main"><${Page} title="Sign in with another token?">
    <p>${self ? html`This window is signed in with the token <strong><${Name} of=${self.Name || self.AccessorID} /></strong>.` : `This window has a token${state === "refused" ? ", which is no longer accepted" : ""}.`}
      ${" "}The link that opened this page brings a one-time token, which replaces it. What you do is then done with the rights, and in the name, of the token of the link.</p>
    <p>If you did not make the link yourself, keep the token of this window.</p>
    <div class="actions">
      <button type="button" class="button primary" onClick=${onKeep}>Keep the token of this window</button>
      <button type="button" class="button" aria-disabled=${busy} onClick=${busy ? null : use}>${busy ? "Working …" : "Use the token of the link"}</button>
    </div>
  <//></main>`;
}

// app/main.js
var draw = (component) => Q(component, document.getElementById("app"));
async function main() {
  startRouter();
  keepFocus();
  const oneTime = currentLocation().query.get("ott");
  if (!oneTime) {
    checkToken();
  } else {
    replaceQuery({ ott: null });
    if (!currentToken() || await isWanted()) await exchangeOneTimeToken(oneTime);
  }
  draw(html`<${Frame} />`);
}
async function isWanted() {
  await checkToken();
  return new Promise((answer) => draw(html`<${OneTimeQuestion} onKeep=${() => answer(false)} onUse=${() => answer(true)} />`));
}
main();
