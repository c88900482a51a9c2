"""The texts of who may act, in Spanish."""

from __future__ import annotations

from collections.abc import Mapping

SPANISH: Mapping[str, str] = {
    "Sign in": "Iniciar sesión",
    "Sign out": "Cerrar sesión",
    "Sign in to act": "Inicie sesión para actuar",
    "You may act on this node.": "Puede actuar en este nodo.",
    "You can read here. To start rounds or change something, sign in.": (
        "Aquí puede leer. Para iniciar rondas o cambiar algo, inicie sesión."
    ),
    "Operator's token": "Clave del operador",
    "Whoever signs in may start rounds, change parameters, bring data and see the settings. The operator's token "
    "was printed when the node started; flnet token on its machine prints it again.": (
        "Quien inicia sesión puede iniciar rondas, cambiar parámetros, aportar datos y ver los ajustes. La clave "
        "del operador se mostró al arrancar el nodo; flnet token la muestra de nuevo en su máquina."
    ),
}
REFUSALS: Mapping[str, str] = {
    "this is not the operator's token of this node; flnet token on its machine shows it": (
        "esta no es la clave del operador de este nodo; flnet token la muestra en su máquina"
    ),
    "this is for persons of this node: sign in on its page, send the operator's token, or ask from the machine "
    "that it runs on": (
        "esto es para personas de este nodo: inicie sesión en su página, envíe la clave del operador o pídalo "
        "desde la máquina en la que se ejecuta"
    ),
    "too much is asked for from here; try again in {count} s": (
        "se pide demasiado desde aquí; inténtelo de nuevo en {count} s"
    ),
    "too many wrong tokens came from there; try again in {count} s": (
        "de ahí llegaron demasiadas claves equivocadas; inténtelo de nuevo en {count} s"
    ),
}
